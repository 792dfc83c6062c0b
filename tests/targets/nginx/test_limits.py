"""What NGINX says it cannot do: for what was written, never for a default."""

from __future__ import annotations

import pytest

from lbgen import model
from lbgen.model import ListenerTls, Match, Metrics, PassiveHealth, Respond, Retry, ServerTls, StrategyChoice
from lbgen.problems import Severity
from lbgen.targets.nginx import NGINX
from lbgen.units import Rate
from lbgen.vocabulary import Version
from tests import factory
from tests.targets.nginx.parsed import args, conf

TLS = ListenerTls("c.pem", "k.pem", None, None, "intermediate", True, None)


def verdicts(fleet, version="1.22", without=()):
    settings = fleet.target("nginx")._replace(version=Version.parse(version), without=without)
    return list(NGINX.limits(fleet._replace(targets=(settings,))))


def keys(fleet, version="1.22", without=()):
    return {
        (problem.message.split("'")[1], problem.severity) for problem in verdicts(fleet, version, without)
    }


ERROR, WARNING = Severity.ERROR, Severity.WARNING


def pool(**values):
    return factory.fleet(factory.pool(**values))


def routed(**values):
    return factory.fleet(listeners=(factory.listener(routes=(factory.route(**values),)),))


def nothing_written(fleet):
    return fleet._replace(origins=factory.Everything(set()))


def test_defaults_cause_nothing() -> None:
    assert verdicts(nothing_written(factory.fleet())) == []


@pytest.mark.parametrize(
    ("fleet", "key", "severity"),
    [
        (pool(), "health", WARNING),
        (pool(), "queue", WARNING),
        (pool(warmup=30_000), "warmup", WARNING),
        (pool(queue=model.Queue(1, 1, "shortest_first")), "queue.order", ERROR),
        (pool(passive_health=PassiveHealth(3, 10_000, 60_000)), "passive_health.eject", WARNING),
        (pool(retry=Retry(1, ("503",), None, True)), "retry.replay_posts", WARNING),
        (pool(retry=Retry(1, ("503",), None, False)), "retry.on", WARNING),
        (pool(timeouts=factory.pool().timeouts._replace(idle=1_000)), "timeouts.idle", WARNING),
        (pool(strategy=StrategyChoice("kv_cache")), "strategy", ERROR),
        (pool(strategy=StrategyChoice("pack")), "strategy", ERROR),
        (
            pool(
                strategy=StrategyChoice("random_two"),
                servers=factory.servers("a:1") + factory.servers("b:1", backup=True),
            ),
            "strategy",
            ERROR,
        ),
        (pool(dns=model.Dns("runtime", ("10.0.0.1:53",), 1_000)), "dns.mode", ERROR),
        (pool(host_header="backend"), "host_header", ERROR),
        (pool(tls=ServerTls(None, None, True, None, None)), "tls.server_name", ERROR),
        (pool(protocol="h2c"), "protocol", ERROR),
        (pool(protocol="grpc"), "protocol", ERROR),
        (pool(health=model.Health("/a$b", 1, 1, 1, 1, 200, None)), "path", ERROR),
        (factory.fleet(listeners=(factory.listener(),)), "http2", WARNING),
        (
            factory.fleet(listeners=(factory.listener(tls=TLS._replace(directory="certs")),)),
            "tls.directory",
            ERROR,
        ),
        (factory.fleet(clients=(factory.client(priority=9),)), "priority", ERROR),
        (routed(match=Match(paths=("/.lbgen/read",))), "path", ERROR),
        (routed(pool=None, respond=Respond(302, "/x", "text/plain")), "respond.status", ERROR),
        (pool(strategy=StrategyChoice("prefix")), "strategy.load_factor", WARNING),
        (factory.fleet(clients=(factory.client(rate=Rate(1000, 3600)),)), "rate", WARNING),
        (factory.fleet(metrics=Metrics((), (), None, None, ("metrics",))), "metrics", WARNING),
    ],
)
def test_says(fleet, key, severity) -> None:
    assert (key, severity) in keys(fleet)
    assert not any(found == key for found, _ in keys(fleet, without=(key,)))


@pytest.mark.parametrize(
    ("fleet", "key", "version"),
    [
        (pool(dns=model.Dns("runtime", ("10.0.0.1:53",), 1_000)), "dns.mode", "1.27.3"),
        (pool(protocol="h2c"), "protocol", "1.29.4"),
        (pool(protocol="grpc"), "protocol", "1.25.1"),
        (factory.fleet(), "http2", "1.26"),
        (pool(host_header="backend", servers=factory.servers("a:[1-2]")), "host_header", "1.22"),
        (pool(tls=ServerTls(None, "gpu", True, None, None)), "tls.server_name", "1.22"),
        (factory.fleet(clients=(factory.client(rate=Rate(600, 60)),)), "rate", "1.22"),
    ],
)
def test_says_nothing(fleet, key, version) -> None:
    assert not any(found == key for found, _ in keys(fleet, version))


def test_every_verdict_has_a_place_a_way_out_and_the_version() -> None:
    for problem in verdicts(pool(strategy=StrategyChoice("pack"), warmup=1)):
        assert problem.path
        assert problem.hint
        assert "NGINX 1.22" in problem.message


def test_an_acceptance_that_accepts_nothing_is_a_warning() -> None:
    found = verdicts(nothing_written(factory.fleet()), without=("warmup",))
    assert [(problem.code, problem.severity) for problem in found] == [("without-unused", WARNING)]


def test_a_refused_strategy_that_was_accepted_is_least_conn() -> None:
    accepted = factory.pool(strategy=StrategyChoice("kv_cache"))
    assert args(conf(factory.fleet(accepted)), "least_conn") == [[]]
