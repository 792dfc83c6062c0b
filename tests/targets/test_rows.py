"""The reference's rows of what a target cannot do, and what it says of a fleet: the same at each version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lbgen.targets.registry import TARGETS
from lbgen.vocabulary import Version
from tests.targets.loaded import loaded

if TYPE_CHECKING:
    from lbgen.problems import Problem

VERSIONS = {
    "nginx": ("1.22", "1.25", "1.25.1", "1.27.2", "1.27.3", "1.29.3", "1.29.4", "1.29.5", "1.29.6", "1.30"),
    "haproxy": ("2.6", "2.7", "2.8", "2.9", "3.0", "3.2"),
}
D, R = "degraded", "refused"
SERVERS = ["gpu-0:8000", "gpu-1:8000"]
SPARE = [*SERVERS, {"address": "gpu-9:8000", "backup": True}]
TLS = {"certificate": "c.pem", "key": "k.pem"}


class Case(NamedTuple):
    """A fleet that uses what a row is about, and the row: key, support, and the version that lifts it."""

    key: str
    support: str
    fleet: dict[str, Any]
    since: str = ""

    def __str__(self) -> str:
        return f"{self.key}-{self.support}-{self.since}"


def pool(**keys: Any) -> dict[str, Any]:
    return {"pools": {"chat": {"engine": "vllm", "servers": SERVERS, **keys}}}


def door(**keys: Any) -> dict[str, Any]:
    return {**pool(), "listeners": {"l": {"bind": "8080", "auth": "none", **keys}}}


def doors(*each: dict[str, Any]) -> dict[str, Any]:
    bound = {f"l{number}": {"bind": "8443", "hosts": [f"h{number}.org"], "auth": "none", **keys}
             for number, keys in enumerate(each)}  # fmt: skip
    return {**pool(), "listeners": bound}


def route(**keys: Any) -> dict[str, Any]:
    return door(routes=[{"path": "/a", "pool": "chat", **keys}, {"pool": "chat"}])


def client(**keys: Any) -> dict[str, Any]:
    return {**door(auth={"clients": "all"}), "clients": {"a": {"key": "env:A", **keys}}}


def session(**keys: Any) -> dict[str, Any]:
    return {"strategy": {"name": "session", **keys}}


RUNTIME = {"mode": "runtime", "resolver": ["10.0.0.10:53"]}
GRPC = {"engine": "http", "protocol": "grpc", "health": False}
CASES = {
    "nginx": [
        Case("pools.*.health", D, pool(health={"path": "/x"})),
        Case("pools.*.warmup", D, pool(warmup="30s")),
        Case("pools.*.max_in_flight", D, pool(max_in_flight=4)),
        Case("pools.*.queue", D, pool(queue={"size": 4})),
        Case("pools.*.queue.order", R, pool(max_in_flight=4, queue={"order": "shortest_first"})),
        Case("pools.*.passive_health", D,
             pool(passive_health={"failures": 3}, retry={"attempts": 1, "on": ["connect", "503"]})),
        Case("pools.*.passive_health.eject", D,
             pool(passive_health={"failures": 3, "window": "10s", "eject": "60s"})),
        Case("pools.*.retry.on", D, pool(retry={"attempts": 1, "on": ["503"]})),
        Case("pools.*.timeouts.first_byte", D, pool(timeouts={"first_byte": "1m", "idle": "5m"})),
        Case("pools.*.timeouts.idle", D, pool(timeouts={"first_byte": "5m", "idle": "1m"})),
        Case("pools.*.dns.mode", R, pool(dns=RUNTIME), "1.27.3"),
        Case("pools.*.dns.resolver", R, pool(dns={"mode": "runtime"})),
        Case("pools.*.discover.dns", R,
             {"pools": {"chat": {"engine": "vllm", "discover": {"dns": "gpu.local", "port": 8000},
                                 "dns": RUNTIME}}}, "1.27.3"),
        Case("pools.*.strategy.kv_cache", R, pool(strategy="kv_cache")),
        Case("pools.*.strategy.pack", R, pool(strategy="pack", max_in_flight=4)),
        Case("pools.*.strategy.random_two", R, pool(strategy="random_two", servers=SPARE)),
        Case("pools.*.strategy.session", R, pool(**session(header="X-S"), servers=SPARE)),
        Case("pools.*.strategy.strict", R, pool(**session(header="X-S", strict=True), max_in_flight=4)),
        Case("pools.*.strategy.strict", D, pool(**session(header="X-S", strict=True)), "1.29.6"),
        Case("pools.*.strategy.learn", R, pool(**session(learn={"header": "X-S"})), "1.29.6"),
        Case("pools.*.strategy.learn", R, pool(**session(learn={"header": "X-S"}), max_in_flight=4)),
        Case("pools.*.strategy.insert", R, pool(**session(insert="lb"), max_in_flight=4)),
        Case("pools.*.strategy.insert", D, pool(**session(insert="lb")), "1.29.6"),
        Case("pools.*.strategy.prefix", R, pool(strategy="prefix", servers=SPARE)),
        Case("pools.*.strategy.load_factor", D, pool(strategy={"name": "prefix", "load_factor": 1.5})),
        Case("pools.*.retry.replay_posts", D,
             pool(retry={"attempts": 1, "on": ["connect", "503"], "replay_posts": True})),
        Case("pools.*.request_buffering", R, pool(strategy="prefix", request_buffering=False)),
        Case("pools.*.response_headers", R, pool(response_headers={"set": {"Server": "x"}})),
        Case("pools.*.host_header", R, pool(host_header="backend")),
        Case("pools.*.tls.server_name", R, pool(tls={"verify": False})),
        Case("pools.*.protocol", R, pool(engine="http", protocol="h2c", health=False), "1.29.4"),
        Case("pools.*.protocol", R, {**door(), **pool(**GRPC)}, "1.25.1"),
        Case("listeners.*.http2", D, door(http2=True), "1.25.1"),
        Case("listeners.*.response_headers", R, door(response_headers={"remove": ["server"]})),
        Case("listeners.*.routes.*.response_headers", R, route(response_headers={"set": {"Server": "x"}})),
        Case("listeners.*.explain", D, door(explain=True)),
        Case("listeners.*.tls.directory", R, door(tls={"directory": "certs/"})),
        Case("listeners.*.tls.profile", R,
             doors({"tls": TLS}, {"tls": {**TLS, "profile": "modern"}}), "1.30"),
        Case("listeners.*.limits.*.rate", D, door(limits=[{"rate": "7/h", "per": "ip"}])),
        Case("listeners.*.routes.*.form", R, route(form=dict.fromkeys("abcd", "x"))),
        Case("listeners.*.routes.*.priority", R, route(priority=3)),
        Case("clients.*.priority", R, client(priority=3)),
        Case("clients.*.rate", D, client(rate="7/h")),
        Case("metrics", D, {**door(), "metrics": {"bind": "127.0.0.1:8404"}}),
    ],
    "haproxy": [
        Case("pools.*.retry.within", D, pool(retry={"within": "5s"})),
        Case("pools.*.retry.replay_posts", D,
             pool(retry={"attempts": 1, "on": ["connect", "503"], "replay_posts": True})),
        Case("pools.*.retry.on", D, pool(retry={"attempts": 1, "on": ["connect", "429"]}), "3.0"),
        Case("pools.*.passive_health", D, pool(passive_health={"failures": 3, "window": "5s"})),
        Case("pools.*.warmup", D, pool(warmup="30s", health=False)),
        Case("pools.*.timeouts.send", D, pool(timeouts={"send": "5s"})),
        Case("pools.*.request_buffering", D, pool(request_buffering=True)),
        Case("listeners.*.timeouts.body", D, door(timeouts={"body": "5s"})),
        Case("listeners.*.timeouts.header", D,
             doors({"timeouts": {"header": "5s"}}, {"timeouts": {"header": "9s"}})),
        Case("listeners.*.timeouts.keepalive", D,
             doors({"timeouts": {"keepalive": "5s"}}, {"timeouts": {"keepalive": "9s"}})),
        Case("listeners.*.max_body", D, door(max_body="1MiB")),
        Case("listeners.*.auth.external", R, door(auth={"external": {"url": "http://10.0.0.1:9/"}})),
        Case("listeners.*.tls.directory", R,
             doors({"tls": {"directory": "certs/"}}, {"tls": {**TLS, "client_ca": "ca.pem"}})),
        Case("listeners.*.acme.webroot", R,
             doors({"tls": TLS, "redirect_from": "80", "acme": {"webroot": "/x"}})),
        Case("listeners.*.limits", R, door(limits=[{"rate": "5/s", "per": "ip"}] * 4), "2.8"),
        Case("listeners.*.routes.*.timeouts.connect", D, route(timeouts={"connect": "5s"})),
        Case("logs.to", D, {**door(), "logs": {"to": "/var/log/lb.log"}}),
    ],
}  # fmt: skip
TOLD_ALONE = {("nginx", "listeners.*.status.ready")}
"""Another way to the same: nothing to be warned of."""


@pytest.mark.parametrize("target", CASES)
def test_every_row_has_a_case(target: str) -> None:
    rows = {
        (row.key, row.support.value, str(row.since or ""))
        for row in TARGETS[target].support
        if (target, row.key) not in TOLD_ALONE
    }
    assert {(case.key, case.support, case.since) for case in CASES[target]} == rows


@pytest.mark.parametrize(
    ("target", "case"), [(target, case) for target, cases in CASES.items() for case in cases], ids=str
)
def test_a_verdict_stands_at_the_versions_of_its_row(target: str, case: Case) -> None:
    for version in VERSIONS[target]:
        problems = loaded(json.dumps(case.fleet), target, version).problems
        said = [one for one in problems if one.code == f"target-{case.support}" and _is_about(one, case.key)]
        lifted = bool(case.since) and Version.parse(version) >= Version.parse(case.since)
        assert bool(said) is not lifted, (version, [str(one) for one in problems])


def _is_about(problem: Problem, key: str) -> bool:
    """Tell whether a verdict is about a row's key, by its place or by the name that it has."""
    *parts, last = problem.path
    named = {"pools", "listeners", "clients"}
    words = [word if index == 0 or parts[index - 1] not in named | {"routes", "limits"} else "*"
             for index, word in enumerate([*parts, last])]  # fmt: skip
    place = ".".join(map(str, words))
    return (
        f"{key}.".startswith(f"{place}.")
        or place.startswith(f"{key}.")
        or f"'{key.rpartition('*.')[2]}'" in problem.message
    )
