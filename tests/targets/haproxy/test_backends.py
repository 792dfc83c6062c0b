from __future__ import annotations

import pytest

from lbgen.model import Discovery, Health, Keepalive, Queue, Retry, Secret, State, StrategyChoice
from lbgen.targets.haproxy.pools.strategies import refusal
from tests import factory
from tests.targets.haproxy.parsed import conf, files, starting

TLS_WORDS = ("ssl", "verify")


def backend(**values: object) -> list[list[str]]:
    return conf(factory.fleet(factory.pool(**values)))["backend chat"]


def test_llm_defaults() -> None:
    sections = conf()
    defaults = sections["defaults lbgen"]
    for option in ("http-no-delay", "abortonclose", "idle-close-on-response"):
        assert ["option", option] in defaults
    assert starting(defaults, "mode") == [["http"]]
    assert starting(sections["global"], "hard-stop-after") == [["15m"]]
    chat = sections["backend chat"]
    assert starting(chat, "balance") == [["leastconn"]]
    assert starting(defaults, "timeout", "server") == [["10m"]]
    assert starting(chat, "option", "redispatch") == [["1"]]
    # What a pool without caps cannot need, and what HAProxy does by itself.
    for words in (("timeout",), ("retry-on",), ("http-reuse",)):
        assert not [line for line in starting(chat, *words) if line[0] != "check"]


def test_every_time_has_a_unit() -> None:
    for lines in conf().values():
        for line in lines:
            if line[0] == "timeout":
                assert line[2][-1].isalpha(), line


def test_newer_versions_close_abandoned_requests_by_themselves() -> None:
    assert ["option", "abortonclose"] not in conf(version="3.3")["defaults lbgen"]


@pytest.mark.parametrize(
    ("name", "balance"),
    [("round_robin", "roundrobin"), ("least_conn", "leastconn"), ("random_two", "random(2)")],
)
def test_strategies(name: str, balance: str) -> None:
    assert starting(backend(strategy=StrategyChoice(name)), "balance") == [[balance]]


def test_checks_stand_on_every_server_and_name_a_host() -> None:
    chat = backend(health=Health("/health", 5_000, 4_000, 2, 3, 200, 8001))
    for line in starting(chat, "server"):
        assert line[2:11] == ["check", "inter", "5s", "fall", "3", "rise", "2", "port", "8001"]
    (send,) = starting(chat, "http-check", "send")
    assert send[send.index("uri") + 1] == "/health"
    assert "Host" in send
    assert starting(chat, "timeout", "check") == [["4s"]]


def test_a_check_without_path_opens_a_connection() -> None:
    chat = backend(health=Health(None, 5_000, 5_000, 2, 3, 200, None))
    assert not starting(chat, "option", "httpchk")
    assert all("check" in line for line in starting(chat, "server"))


def test_states_weights_and_caps() -> None:
    up, heavy, drained, down = factory.servers("10.0.0.[1-4]:8000")
    servers = (
        up._replace(max_in_flight=7),
        heavy._replace(weight=4, backup=True),
        drained._replace(state=State.DRAIN),
        down._replace(state=State.DOWN),
    )
    first, second, third, fourth = starting(backend(servers=servers, max_in_flight=3), "server")
    assert first[-2:] == ["maxconn", "7"]
    assert second[-5:] == ["weight", "4", "maxconn", "3", "backup"]
    assert "weight 0" in " ".join(third)
    assert fourth[-1] == "disabled"


def test_a_full_queue_is_refused_and_an_absent_cap_has_none() -> None:
    capped = backend(max_in_flight=4, queue=Queue(9, 2_000, "fifo"))
    assert ["http-request", "deny", "deny_status", "503", "if", "{", "queue", "ge", "9", "}"] in capped
    assert not any("queue" in line[6:] for line in backend() if line[0] == "http-request")


def test_the_queue_is_bounded_where_an_agent_sets_the_caps() -> None:
    learned = backend(strategy=StrategyChoice("kv_cache"), queue=Queue(9, 2_000, "fifo"))
    assert ["http-request", "deny", "deny_status", "503", "if", "{", "queue", "ge", "9", "}"] in learned


def test_an_agent_has_to_know_the_servers() -> None:
    found = Discovery("gpus.internal", 8000, 10, None)
    judged = [
        refusal(
            factory.pool(strategy=StrategyChoice(name), discover=discover), factory.settings("haproxy", "2.6")
        )
        for name, discover in (("kv_cache", None), ("least_conn", found), ("kv_cache", found))
    ]
    assert judged[:2] == [None, None]
    assert judged[2] is not None
    assert "discover" in judged[2].reason


def test_nothing_waits_where_the_queue_is_empty_by_order() -> None:
    capped = backend(max_in_flight=4, queue=Queue(0, 2_000, "fifo"))
    assert any("be_conn_free" in line for line in capped)


def test_a_post_that_was_sent_is_not_sent_again() -> None:
    chat = backend(retry=Retry(2, ("connect", "reset", "503"), None, replay_posts=False))
    assert starting(chat, "retry-on") == [["conn-failure", "empty-response", "503"]]
    assert starting(chat, "http-request", "disable-l7-retry") == [
        ["if", "{", "method", "POST", "PATCH", "LOCK", "}"]
    ]


def test_a_post_is_sent_again_where_that_is_wanted() -> None:
    chat = backend(retry=Retry(2, ("connect", "503"), None, replay_posts=True))
    assert ["option", "http-buffer-request"] in chat
    assert not starting(chat, "http-request", "disable-l7-retry")


def test_429_is_retried_from_3_0_on() -> None:
    fleet = factory.fleet(factory.pool(retry=Retry(1, ("connect", "429"), None, replay_posts=True)))
    assert not starting(conf(fleet, "2.6")["backend chat"], "retry-on")
    assert "429" in starting(conf(fleet, "3.0")["backend chat"], "retry-on")[0]


def test_idle_connections_end_before_the_server_ends_them() -> None:
    (words,) = starting(backend(keepalive=Keepalive(8, 4_000, 100)), "default-server")
    assert words[:6] == ["pool-purge-delay", "1s", "pool-max-conn", "8", "max-reuse", "100"]


def test_names_that_cannot_be_resolved_do_not_stop_the_start() -> None:
    (words,) = starting(backend(), "default-server")
    assert words[-2:] == ["init-addr", "last,libc,none"]
    (words,) = starting(backend(servers=factory.servers("10.0.0.1:80")), "default-server")
    assert "init-addr" not in words


def test_an_empty_pool_answers_503() -> None:
    assert backend(servers=())[0] == ["http-request", "deny", "deny_status", "503"]


def test_secrets_stay_out_of_the_main_file() -> None:
    health = Health("/health", 5_000, 5_000, 2, 3, 200, None, {"Authorization": Secret("env", "NOT_SET")})
    made = files(factory.fleet(factory.pool(health=health)))
    assert "stand-in" not in made["haproxy.cfg"]
    assert "value-1 stand-in-" in made["secrets/values.map"]


def test_ten_thousand_patterns_are_cut_into_lines() -> None:
    hosts = tuple(f"h{number}.example.org" for number in range(1_000))
    conf(factory.fleet(listeners=(factory.listener(hosts=hosts),)))  # the reader counts words


@pytest.mark.parametrize("part", ["http", "upstreams"])
def test_parts_have_no_global_section(part: str) -> None:
    text = files(factory.fleet(), part=part)[f"{part}.cfg"]
    assert "\nglobal" not in text
    assert ("frontend" in text) == (part == "http")
