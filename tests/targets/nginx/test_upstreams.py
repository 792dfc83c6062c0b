"""Pools as upstream blocks."""

from __future__ import annotations

import pytest

from lbgen import model
from lbgen.model import Keepalive, PassiveHealth, State, StrategyChoice
from lbgen.targets.nginx.pools.upstreams import zone_kib
from tests import factory
from tests.targets.nginx.parsed import args, conf, find, locations


def upstreams(*pools, version="1.22"):
    blocks = find(conf(factory.fleet(*pools), version), "upstream")
    return {block["args"][0]: block["block"] for block in blocks}


def test_order_is_zone_method_servers_keepalive() -> None:
    names = [entry["directive"] for entry in upstreams(factory.pool())["chat"]]
    assert names == [
        "zone",
        "least_conn",
        "server",
        "server",
        "keepalive",
        "keepalive_timeout",
    ]


def test_names_are_unique_in_lower_case_and_keep_underscores() -> None:
    pools = [factory.pool(name) for name in ("llm_backend", "a.b", "a_b", "A-B", "a-b-2", "chat")]
    blocks = upstreams(*pools)
    assert list(blocks) == ["llm_backend", "a-b", "a_b-2", "a-b-3", "a-b-2-2", "chat"]
    zones = [args(block, "zone")[0][0] for block in blocks.values()]
    assert len(set(zones)) == 6


@pytest.mark.parametrize(("servers", "least"), [(1, 64), (63, 64), (400, 512), (10_000, 10_000)])
def test_zone_grows_with_the_servers(servers: int, least: int) -> None:
    size = zone_kib(servers)
    assert size >= least
    assert size & (size - 1) == 0


@pytest.mark.parametrize(
    ("strategy", "words"),
    [("round_robin", []), ("least_conn", [[]]), ("random_two", [["two", "least_conn"]])],
)
def test_method(strategy: str, words: list[list[str]]) -> None:
    block = upstreams(factory.pool(strategy=StrategyChoice(strategy)))["chat"]
    assert args(block, "least_conn" if strategy == "least_conn" else "random") == words


def server_words(**values):
    servers = factory.servers("10.0.0.1:8000", **values)
    block = upstreams(factory.pool(servers=(*servers, *factory.servers("10.0.0.2:8000")), max_in_flight=32))[
        "chat"
    ]
    return args(block, "server")[0][1:]


def test_weight_cap_and_backup() -> None:
    assert server_words(weight=4, max_in_flight=8, backup=True) == [
        "weight=4", "max_conns=8", "max_fails=3", "fail_timeout=10s", "backup",
    ]  # fmt: skip


def test_the_pools_cap_is_the_default() -> None:
    assert "max_conns=32" in server_words()


@pytest.mark.parametrize("values", [{"state": State.DRAIN}, {"state": State.DOWN}, {"weight": 0}])
def test_out_of_rotation_is_down(values) -> None:
    words = server_words(**values)
    assert "down" in words
    assert "weight=0" not in words


def test_no_passive_health_is_no_failure_limit() -> None:
    block = upstreams(factory.pool(passive_health=PassiveHealth(0, 10_000, 10_000)))["chat"]
    assert args(block, "server")[0][1:] == ["max_fails=0"]


@pytest.mark.parametrize(("version", "lines"), [("1.22", []), ("1.26.3", []), ("1.30.6", [["0"]])])
def test_no_keepalive_in_each_versions_words(version: str, lines: list[list[str]]) -> None:
    pool = factory.pool(keepalive=None)
    assert args(upstreams(pool, version=version)["chat"], "keepalive") == lines
    connection = ["Connection", "close"]
    assert connection in args(conf(factory.fleet(pool), version), "proxy_set_header")


def test_keepalive_numbers() -> None:
    block = upstreams(factory.pool(keepalive=Keepalive(7, 4_000, 99)))["chat"]
    assert args(block, "keepalive") + args(block, "keepalive_timeout") == [["7"], ["4s"]]
    assert args(block, "keepalive_requests") == [["99"]]


def test_names_are_followed_where_the_version_can() -> None:
    pool = factory.pool(dns=model.Dns("runtime", ("10.0.0.10:53", "[fd00::1]:53"), 10_000))
    block = upstreams(pool, version="1.30.6")["chat"]
    assert args(block, "resolver") == [["10.0.0.10:53", "[fd00::1]:53", "valid=10s"]]
    assert all("resolve" in words for words in args(block, "server"))


def test_capped_pools_are_probed_without_their_caps() -> None:
    block = upstreams(factory.pool(max_in_flight=1))["chat-ready"]
    assert not any("max_conns" in word for words in args(block, "server") for word in words)


def test_an_empty_pool_has_no_upstream_and_answers_503() -> None:
    directives = conf(factory.fleet(factory.pool(servers=(), allow_empty=True)))
    assert not args(directives, "upstream")
    assert not args(directives, "proxy_pass")


def server(name: str, **values):
    [found] = factory.servers(f"{name}:8000", **values)
    return found


def lines(*servers, **values) -> list[list[str]]:
    """Return the `server` lines of a pool of these servers."""
    found = conf(factory.fleet(factory.pool(servers=servers, **values)))
    return args(next(find(found, "upstream"))["block"], "server")


@pytest.mark.parametrize("gone", [{"state": State.DOWN}, {"state": State.DRAIN}, {"weight": 0}])
def test_the_only_server_that_is_left_is_never_out(gone) -> None:
    left, _ = lines(server("a"), server("b", **gone))
    assert left[1:] == ["max_fails=0"]
    one, other, _ = lines(server("a"), server("b"), server("c", **gone))
    assert "max_fails=3" in one
    assert "max_fails=3" in other


def test_a_status_that_is_tried_again_is_no_failure() -> None:
    retry = factory.pool().retry._replace(on=("connect", "503"))
    assert all("max_fails=0" in words for words in lines(*map(server, "ab"), retry=retry))


def test_a_request_walks_on_to_a_backup() -> None:
    servers = (*map(server, "abc"), server("d", backup=True))
    found = conf(factory.fleet(factory.pool(servers=servers)))
    assert args(locations(found)["/"], "proxy_next_upstream_tries") == [["4"]]
