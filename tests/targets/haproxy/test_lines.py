"""Lines of a HAProxy file that keys of a fleet file stand for, one key at a time."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from typing import NamedTuple

import pytest

from lbgen.model import Secret
from lbgen.secret_values import StandInSecrets
from lbgen.targets.haproxy import HAPROXY
from tests.targets.loaded import CHAT, files, loaded, refused, sections

KEYS = "clients: {a: {key: 'env:A', priority: 3}, b: {key: 'env:B', priority: 5}, c: {key: 'env:C'}}\n"


def backend(text: str, name: str = "chat", version: str = "2.6") -> list[str]:
    return sections(text, version)[f"backend {name}"]


def frontend(text: str, version: str = "2.6") -> list[str]:
    """Return the lines of the only listener's frontend."""
    found = sections(text, version)
    (head,) = [head for head in found if head.startswith("frontend listener:")]
    return found[head]


def pool(**keys: object) -> str:
    """Return a fleet of one pool with some keys."""
    servers = {"servers": ["gpu-0:8000", "gpu-1:8000"]}
    return json.dumps({"pools": {"chat": {"engine": "vllm", **servers, **keys}}})


# time


@pytest.mark.parametrize(
    ("timeouts", "line"),
    [
        ({"first_byte": "5m", "idle": "2m"}, "timeout server 5m"),
        ({"first_byte": "2m", "idle": "5m"}, "timeout server 5m"),
    ],
)
def test_one_timer_holds_for_the_first_byte_and_for_gaps(timeouts: dict[str, str], line: str) -> None:
    assert line in backend(pool(timeouts=timeouts))


@pytest.mark.parametrize(
    ("timeouts", "lines"),
    [
        ({"first_byte": "7m"}, ["set-timeout server 7m"]),
        ({"idle": "8m"}, ["set-timeout server 8m"]),
        ({"tunnel": "2h"}, ["set-timeout tunnel 2h"]),
        ({}, []),
    ],
)
def test_a_route_has_timers_of_its_own(timeouts: dict[str, str], lines: list[str]) -> None:
    text = {
        **json.loads(pool()),
        "listeners": {"l": {"bind": "8080", "routes": [{"path": "/a", "pool": "chat", "timeouts": timeouts},
                                                       {"pool": "chat"}]}},
    }  # fmt: skip
    found = [line for line in backend(json.dumps(text)) if "set-timeout" in line]
    assert [line.split(" if ")[0].removeprefix("http-request ") for line in found] == lines
    assert all(" if { var(txn.lb_route) -m int 1 }" in line for line in found)


# the order of waiting


def test_a_client_has_its_class_where_it_is_let_in() -> None:
    text = CHAT + KEYS + "listeners: {l: {bind: '8080', auth: {clients: [a, c]}}}"
    classes = [line for line in frontend(text) if "set-priority-class" in line]
    assert [line.split(" if ")[0] for line in classes] == ["http-request set-priority-class int(3)"]
    assert classes[0].endswith("if { var(txn.lb_client) -m str -- a }")


def test_a_routes_class_comes_after_its_clients_and_zero_is_one() -> None:
    text = CHAT + KEYS + (
        "listeners: {l: {bind: '8080', auth: {clients: [a]}, routes: [{path: /x, pool: chat, priority: 0},"
        " {pool: chat}]}}"
    )  # fmt: skip
    classes = [line for line in frontend(text) if "set-priority-class" in line]
    assert [line.split()[2] for line in classes] == ["int(3)", "int(0)"]


@pytest.mark.parametrize("order", ["fifo", "shortest_first"])
def test_short_requests_overtake_where_asked(order: str) -> None:
    text = pool(max_in_flight=4, queue={"timeout": "30s", "order": order})
    offsets = [line for line in frontend(text) if "set-priority-offset var(txn.lb_cost)" in line]
    assert len(offsets) == (order == "shortest_first")


@pytest.mark.parametrize(
    ("keys", "condition"),
    [
        ({"max_in_flight": 4}, "{ queue ge 512 }"),
        ({"max_in_flight": 4, "queue": {"size": 7}}, "{ queue ge 7 }"),
        ({"strategy": "kv_cache", "queue": {"size": 7}}, "{ queue ge 7 }"),
        ({"queue": {"size": 7}}, None),
    ],
)
def test_a_full_queue_is_refused_where_one_can_wait(keys: dict[str, object], condition: str | None) -> None:
    found = [line for line in backend(pool(**keys)) if "deny_status 503" in line]
    assert found == ([f"http-request deny deny_status 503 if {condition}"] if condition else [])


# what HAProxy cannot do


CANNOT = [
    (pool(host_header="backend"), [("target-refused", 1)], "different host names"),
    (pool(host_header="backend", servers="gpu-0:8000"), [], ""),
    (pool(retry={"within": "5s"}), [("target-degraded", 1)], "does not limit the retries"),
    (pool(warmup="30s", health=False), [("target-degraded", 1)], "without 'health'"),
    (pool(warmup="30s"), [], ""),
    (pool(passive_health={"failures": 3}), [], ""),
    (pool(passive_health={"failures": 3}, health=False), [("target-degraded", 1)], "needs 'health'"),
    (pool(passive_health={"failures": 3, "window": "5s"}), [("target-degraded", 1)], "without 'window'"),
    (pool(passive_health={"failures": 3, "eject": "5s"}), [("target-degraded", 1)], "without 'window'"),
    (pool(strategy="pack"), [("target-refused", 1)], "without max_in_flight"),
    (pool(strategy="pack", max_in_flight=3), [], ""),
    (pool(strategy="pack", servers=[{"address": "gpu-0:8000", "max_in_flight": 3}]), [], ""),
    (pool(timeouts={"send": "5s"}), [("target-degraded", 1)], "idle"),
    (CHAT + "logs: {to: /var/log/lb.log}", [("target-degraded", 2)], "cannot be a file"),
    (CHAT + "logs: {to: 'syslog:127.0.0.1:514'}", [], ""),
]


@pytest.mark.parametrize(("text", "expected", "words"), CANNOT)
def test_what_cannot_be_had_is_said_where_it_is_written(
    text: str, expected: list[tuple[str, int]], words: str
) -> None:
    found = refused(text, "haproxy", "2.6")
    assert [(one.code, one.line) for one in found] == expected
    assert all(words in one.message for one in found)


@pytest.mark.parametrize(("version", "number"), [("2.6", 1), ("3.0", 0)])
def test_retries_on_429_are_said_to_need_3_0(version: str, number: int) -> None:
    text = pool(retry={"attempts": 1, "on": ["connect", "429"]})
    assert len([one for one in refused(text, "haproxy", version) if "429" in one.message]) == number
    words = [line for line in backend(text, version=version) if line.startswith("retry-on")]
    assert words == ([] if number else ["retry-on conn-failure 429"])


@pytest.mark.parametrize(("limits", "version", "number"), [(3, "2.6", 0), (4, "2.6", 1), (4, "3.0", 0)])
def test_more_limits_than_counters_are_refused(limits: int, version: str, number: int) -> None:
    each = ", ".join(["{rate: 5/s, per: ip}"] * limits)
    text = CHAT + f"listeners: {{l: {{bind: '8080', limits: [{each}]}}}}"
    found = [one for one in refused(text, "haproxy", version) if one.code == "target-refused"]
    assert len(found) == number
    assert all("needs 4 counters" in one.message for one in found)


# second tries


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        ({"attempts": 0}, ["retries 0"]),
        ({"attempts": 2, "on": ["connect"]}, ["retries 2", "option redispatch 1"]),
        (
            {"attempts": 1, "on": ["connect", "reset"]},
            ["retries 1", "option redispatch 1", "retry-on conn-failure empty-response",
             "http-request disable-l7-retry if { method POST PATCH LOCK }"],
        ),
        (
            {"attempts": 1, "on": ["connect", "503"], "replay_posts": True},
            ["retries 1", "option redispatch 1", "retry-on conn-failure 503", "option http-buffer-request"],
        ),
    ],
)  # fmt: skip
def test_tries(retry: dict[str, object], expected: list[str]) -> None:
    words = ("retries", "option redispatch", "retry-on", "option http-buffer", "http-request disable-l7")
    assert [line for line in backend(pool(retry=retry)) if line.startswith(words)] == expected


# servers


def server_lines(text: str, version: str = "2.6") -> list[str]:
    return [line for line in backend(text, version=version) if line.startswith("server ")]


def test_an_agent_is_asked_for_each_server_by_name() -> None:
    first, second = server_lines(pool(strategy={"name": "kv_cache", "agent_host": "10.0.0.9"}))
    asked = "agent-check agent-addr 10.0.0.9 agent-port 8406 agent-inter 1s agent-send chat/gpu-{}\\n"
    assert asked.format(0) in first
    assert asked.format(1) in second
    assert "agent" not in server_lines(pool())[0]
    local = server_lines(pool(strategy={"name": "kv_cache", "agent_port": 9000}))[0]
    assert "agent-addr 127.0.0.1 agent-port 9000" in local


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, ""),
        ({"weight": 3}, "weight 3"),
        ({"weight": 0}, "weight 0"),
        ({"state": "drain"}, "weight 0"),
        ({"state": "down"}, "disabled"),
        ({"backup": True}, "backup"),
        ({"max_in_flight": 5}, "maxconn 5"),
    ],
)
def test_what_a_server_line_says_of_its_server(keys: dict[str, object], words: str) -> None:
    servers = [{"address": "gpu-0:8000", **keys}, "gpu-1:8000"]
    line, other = server_lines(pool(servers=servers, health=False))
    assert line == f"server gpu-0 gpu-0:8000 {words}".rstrip()
    assert other == "server gpu-1 gpu-1:8000"


@pytest.mark.parametrize(("count", "number"), [(1, 0), (2, 1)])
def test_all_backups_serve_where_there_are_several(count: int, number: int) -> None:
    servers = ["gpu-0:8000", *({"address": f"spare-{n}:8000", "backup": True} for n in range(count))]
    assert backend(pool(servers=servers)).count("option allbackups") == number


@pytest.mark.parametrize(
    ("strategy", "weights"),
    [("least_conn", [1, 4]), ("kv_cache", [64, 256]), ({"name": "session", "header": "X-S"}, [64, 256])],
)
def test_weights_are_raised_where_small_ones_are_too_rough(strategy: object, weights: list[int]) -> None:
    servers = ["gpu-0:8000", {"address": "gpu-1:8000", "weight": 4}]
    lines = server_lines(pool(strategy=strategy, servers=servers))
    found = [line.partition(" weight ")[2].split() for line in lines]
    assert [int(words[0]) if words else 1 for words in found] == weights


@pytest.mark.parametrize(
    ("health", "words"),
    [
        ({"interval": "3s", "timeout": "2s", "rise": 4, "fall": 5}, "check inter 3s fall 5 rise 4"),
        ({"port": 9000}, "port 9000"),
        (False, ""),
    ],
)
def test_checks(health: object, words: str) -> None:
    line = server_lines(pool(health=health))[0]
    assert words in line
    assert ("check" in line.split()) is (health is not False)


def test_failed_connections_mark_a_server_down_only_where_written() -> None:
    observe = "observe layer4 error-limit 4 on-error mark-down"
    assert observe in server_lines(pool(passive_health={"failures": 4}))[0]
    assert "observe" not in server_lines(pool())[0]


@pytest.mark.parametrize(("health", "slow"), [(True, True), (False, False)])
def test_a_server_that_comes_back_is_warmed_up(health: bool, slow: bool) -> None:
    keys = {} if health else {"health": False}
    assert ("slowstart 45s" in server_lines(pool(warmup="45s", **keys))[0]) is slow


# TLS to the servers


ONE_NAME = ["gpu-0:8000", "gpu-0:8001"]
TLS = [
    ({}, ONE_NAME, "verify required ca-file @system-ca sni str(gpu-0) check-sni gpu-0 verifyhost gpu-0"),
    ({"ca": "/etc/ca.pem", "server_name": "x.org"}, ONE_NAME,
     "verify required ca-file /etc/ca.pem sni str(x.org) check-sni x.org verifyhost x.org"),
    ({"verify": False}, ["10.0.0.1:8000"], "verify none"),
    ({"verify": False, "server_name": "x.org"}, ["10.0.0.1:8000"],
     "verify none sni str(x.org) check-sni x.org"),
    ({"verify": False}, ["gpu-0:8000", "gpu-1:8000"], "verify none"),
    ({"verify": False}, ONE_NAME, "verify none sni str(gpu-0) check-sni gpu-0"),
]  # fmt: skip


@pytest.mark.parametrize(("tls", "servers", "expected"), TLS)
def test_tls_of_a_server(tls: dict[str, object], servers: list[str], expected: str) -> None:
    """The name is told and compared: the fleet's, or that which all servers have."""
    line = server_lines(pool(tls=tls, servers=servers, health=False))[0]
    assert line.split(" ssl ")[1] == f"{expected} alpn http/1.1 check-alpn http/1.1"


def test_grpc_is_spoken_by_http2() -> None:
    plain = server_lines(pool(engine="http", protocol="h2c", health=False))[0]
    assert plain.endswith("proto h2")
    secret = server_lines(pool(engine="http", protocol="grpc", tls={"verify": False}, health=False))[0]
    assert "alpn h2 check-alpn h2" in secret
    assert "proto" not in secret


# limits


@pytest.mark.parametrize(
    ("limit", "table", "rules"),
    [
        (
            "{rate: 600/m, burst: 50, per: ip}",
            "stick-table type ipv6 size 100k expire 10200ms store gpc0,gpc0_rate(5100ms)",
            ["{ sc_gpc0_rate(0,limit:l:1) ge 51 }"],
        ),
        (
            "{rate: 1000/s, per: total}",
            "stick-table type integer size 10 expire 10s store gpc0,gpc0_rate(100ms)",
            ["{ sc_gpc0_rate(0,limit:l:1) ge 100 }"],
        ),
        (
            "{concurrent: 7, per: ip}",
            "stick-table type ipv6 size 100k expire 10s store conn_cur",
            ["{ sc_conn_cur(0,limit:l:1) gt 7 }"],
        ),
    ],
)
def test_limits(limit: str, table: str, rules: list[str]) -> None:
    text = CHAT + f"listeners: {{l: {{bind: '8080', limits: [{limit}]}}}}"
    found = sections(text)
    (lines,) = [lines for head, lines in found.items() if head.startswith("backend limit:l:1")]
    assert lines == [table]
    denied = [line for line in frontend(text) if "deny_status 429" in line]
    assert [line.partition(" if ")[2] for line in denied] == rules
    counted = [line for line in frontend(text) if "sc-inc-gpc0(0)" in line]
    assert len(counted) == ("rate" in limit)


def test_a_clients_limits_are_its_own() -> None:
    text = CHAT + (
        "clients: {a: {key: 'env:A', rate: 60/m, max_in_flight: 2}, b: {key: 'env:B', rate: 60/m}}\n"
        "listeners: {l: {bind: '8080', auth: {clients: [a]}, limits: [{concurrent: 9, per: client}]}}"
    )
    tables = [head for head in sections(text) if "client:" in head or "limit:" in head]
    assert [head.split()[1] for head in tables] == ["limit:l:1", "client:a"]
    tracked = [line for line in frontend(text) if "track-sc" in line]
    mine = "{ var(txn.lb_client) -m str -- a }"
    assert tracked == [
        "http-request track-sc0 var(txn.lb_client) table limit:l:1",
        f"http-request track-sc1 var(txn.lb_client) table client:a if {mine}",
    ]
    assert f"http-request sc-inc-gpc0(1) if {mine}" in frontend(text)


# names


@pytest.mark.parametrize(
    ("dns", "servers", "expected"),
    [
        ("{mode: runtime, resolver: ['10.0.0.53:53']}", "['gpu-0:8000']", ["nameserver ns1 10.0.0.53:53"]),
        ("{mode: runtime}", "['gpu-0:8000']", ["parse-resolv-conf"]),
        ("{mode: runtime}", "['10.0.0.1:8000']", None),
        ("{mode: static}", "['gpu-0:8000']", None),
    ],
)
def test_names_are_followed_where_asked(dns: str, servers: str, expected: list[str] | None) -> None:
    text = f"pools: {{chat: {{engine: vllm, servers: {servers}, dns: {dns}}}}}"
    found = sections(text).get("resolvers dns:chat")
    assert (found[:1] if found else None) == expected
    follows = [line for line in backend(text) if "resolvers dns:chat" in line]
    assert len(follows) == (expected is not None)


def test_what_a_name_server_says_is_held_as_long_as_the_fleet_says() -> None:
    lines = sections("pools: {chat: {engine: vllm, servers: ['a:1'], dns: {mode: runtime, valid: 7s}}}")
    held = [line for line in lines["resolvers dns:chat"] if line.startswith("hold")]
    assert "hold valid 7s" in held
    assert "hold obsolete 7s" in held
    assert {f"hold {state} 30s" for state in ("other", "refused", "timeout", "nx")} <= set(held)


# metrics and logs


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ("{bind: '127.0.0.1:8404'}", ["127.0.0.0/8", "::1/128"]),
        ("{bind: '127.0.0.1:8404', allow: ['10.1.0.0/16']}", ["10.1.0.0/16"]),
        ("{bind: '0.0.0.0:8404', auth: {user: ops, password: 'env:P'}}", None),
    ],
)
def test_who_may_read_metrics(metrics: str, expected: list[str] | None) -> None:
    lines = sections(CHAT + f"metrics: {metrics}")["frontend lb:metrics"]
    allowed = [line.split(" -- ")[1].split() for line in lines if line.startswith("acl") and " src " in line]
    assert allowed == ([expected] if expected else [])
    assert len([line for line in lines if "deny_status 403" in line]) == len(allowed)


def test_metrics_ask_for_the_password() -> None:
    text = CHAT + "metrics: {bind: '127.0.0.1:8404', auth: {user: ops, password: 'env:P'}}"
    made, lines = files(text, "haproxy", "2.6"), sections(text)["frontend lb:metrics"]
    assert any(line.startswith("http-request auth realm metrics if !{") for line in lines)
    digest, name = made["secrets/metrics.map"].splitlines()[-1].split()
    assert name == "metrics"
    pair = f"ops:{StandInSecrets().resolve(Secret('env', 'P'))}"
    header = b"Basic " + b64encode(pair.encode())
    assert digest == hashlib.sha256(header).hexdigest().upper()
    assert "secrets/metrics.map" not in files(CHAT + "metrics: {bind: '127.0.0.1:8404'}", "haproxy", "2.6")


class Log(NamedTuple):
    logs: str
    target: str
    access: str


@pytest.mark.parametrize(
    "case",
    [
        Log("{}", "log stdout len 65000 format raw local0 info", """log-format '{"time":"""),
        Log("{level: error}", "log stdout len 65000 format raw local0 err", """log-format '{"time":"""),
        Log(
            "{to: 'syslog:10.0.0.1:514', format: combined}",
            "log 10.0.0.1:514 len 65000 format rfc5424 local0 info",
            "log-format '%ci - %[var(txn.lb_client)] [%trl] ",
        ),
    ],
)
def test_logs(case: Log) -> None:
    found = sections(CHAT + f"logs: {case.logs}")
    assert case.target in found["global"]
    assert any(line.startswith(case.access) for lines in found.values() for line in lines)


# redirects


@pytest.mark.parametrize(("bind", "suffix"), [("443", ""), ("8443", ":8443")])
def test_plain_requests_are_sent_on_to_the_listeners_port(bind: str, suffix: str) -> None:
    text = CHAT + (f"listeners: {{l: {{bind: '{bind}', redirect_from: '80', tls: {{bundle: b.pem}}}}}}")
    lines = sections(text)["frontend redirect:1"]
    assert any(line.startswith("bind ") and ":80" in line for line in lines)
    (sent,) = [line for line in lines if "redirect code 308" in line]
    assert sent.endswith(f"location https://%[req.fhdr(host),host_only]{suffix}%[pathq]")


def test_challenges_are_not_sent_on() -> None:
    text = CHAT + (
        "listeners: {l: {bind: '443', redirect_from: '80', tls: {bundle: b.pem}, acme: {pool: chat}}}"
    )
    lines = sections(text)["frontend redirect:1"]
    (sent,) = [line for line in lines if "redirect code 308" in line]
    assert sent.endswith("if !{ var(txn.lb_path) -m beg /.well-known/acme-challenge/ }")
    assert "use_backend chat if { var(txn.lb_path) -m beg /.well-known/acme-challenge/ }" in lines


# several listeners on one address


TWO = CHAT + KEYS + (
    "listeners:\n"
    "  a: {bind: '8080', hosts: [a.org], auth: {clients: [a]}, limits: [{rate: 5/s, per: ip}]}\n"
    "  b: {bind: '8080', hosts: [b.org], auth: none}\n"
)  # fmt: skip


def test_each_listeners_rules_are_its_own() -> None:
    """Where listeners share an address, a rule that does not ask whose it is holds for both."""
    lines = frontend(TWO)
    whose = "{ var(txn.lb_listener) -m str a }"
    for words in ("deny_status 401", "deny_status 429", "track-sc0", "set-priority-class"):
        found = [line for line in lines if words in line]
        assert found, words
        assert all(whose in line for line in found), words


def test_a_listener_alone_asks_for_nobody() -> None:
    assert not any("txn.lb_listener) -m str" in line for line in frontend(CHAT))


# conditions of routes


@pytest.mark.parametrize(
    ("hosts", "tests"),
    [
        (["a.org"], ["-m str -i -- a.org"]),
        (["*.b.org"], ["-m end -i -- .b.org"]),
        (["a.org", "*.b.org"], ["-m str -i -- a.org", "-m end -i -- .b.org"]),
    ],
)
def test_hosts_of_a_route(hosts: list[str], tests: list[str]) -> None:
    """A name is compared whole, a wildcard from its dot on."""
    routes = f"[{{host: {json.dumps(hosts)}, pool: chat}}, {{pool: chat}}]"
    lines = frontend(CHAT + f"listeners: {{l: {{bind: '8080', routes: {routes}}}}}")
    found = [line for line in lines if line.startswith("acl") and "req.fhdr(host),host_only" in line]
    assert [line[line.index("-m ") :] for line in found] == tests


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            "accept_proxy: true, trusted_proxies: [10.1.0.0/16]",
            ["tcp-request connection expect-proxy layer4"],
        ),
        ("trusted_proxies: [10.1.0.0/16]", []),
    ],
)
def test_who_may_speak_the_proxy_protocol(keys: str, expected: list[str]) -> None:
    lines = frontend(CHAT + f"listeners: {{l: {{bind: '8080', {keys}}}}}")
    found = [line for line in lines if "expect-proxy" in line]
    assert [line.partition(" if ")[0] for line in found] == expected
    for line in found:
        name = line.rpartition(" ")[2]
        assert f"acl {name} src -- 10.1.0.0/16" in lines


def test_what_a_body_costs_is_said() -> None:
    routes = "[{model: x, pool: chat}, {pool: chat}]"
    text = CHAT + (
        f"listeners: {{l: {{bind: '8080', inspect: {{body: 1MiB}}, routes: {routes}}}}}\n"
        "targets: {haproxy: {max_connections: 1000}}\n"
    )
    (note,) = [note for note in notes_of(text) if "buffers take up to" in note]
    assert "if all 1000 connections" in note
    total = float(note.partition("up to ")[2].partition(" GiB")[0])
    count, size = (int(word) for word in re.findall(r"\((\d+) buffers of (\d+) KiB", note)[0])
    assert total == pytest.approx(count * size * 1000 / 2**20, abs=0.05)
    plain = text.replace(", inspect: {body: 1MiB}", "").replace("max_connections: 1000", "")
    assert notes_of(plain) == [], "nobody chose a size or a number"
    assert notes_of(plain.replace("'8080'", "'8080', inspect: {body: 2MiB}"))


def notes_of(text: str) -> list[str]:
    found = loaded(text, "haproxy", "2.6").fleet
    assert found is not None
    return list(HAPROXY.notes(found))


def test_verdicts_stand_where_the_key_is() -> None:
    text = "pools:\n  chat:\n    servers: [gpu-0:8000]\n    timeouts:\n      connect: 2s\n      send: 5s\n"
    assert [(one.code, one.line) for one in refused(text, "haproxy", "2.6")] == [("target-degraded", 6)]


def test_a_split_by_client_goes_by_the_clients_name() -> None:
    routes = "[{split: {chat: 90, other: 10}, by: client}]"
    text = (
        "pools: {chat: {servers: [a:1]}, other: {servers: [b:1]}}\n"
        f"{KEYS}listeners: {{l: {{bind: '8080', auth: {{clients: [a]}}, routes: {routes}}}}}"
    )
    assert "http-request set-var-fmt(txn.lb_who) %[var(txn.lb_client)]" in frontend(text)
