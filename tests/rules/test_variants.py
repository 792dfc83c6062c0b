"""The branches of rules that one pair of files cannot show."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

POOL = "pools: {chat: {servers: [gpu-0:8000, gpu-1:8000]%s}}\n"
TLS = "tls: {certificate: c.pem, key: k.pem}"
CLIENTS = "clients: {team: {key: env:KEY}}\n"


def codes(listeners: str, pool: str = "", rest: str = "", target: str = "haproxy") -> list[str]:
    text = f"{POOL % pool}listeners:\n{listeners}\n{rest}targets: {{{target}: {{}}}}\n"
    found = load([Source("fleet.yaml", text)], environ={}).problems
    return [problem.code for problem in found if not problem.code.startswith(("target-", "without-"))]


@pytest.mark.parametrize(
    ("one", "two", "code"),
    [
        ("bind: 127.0.0.1:80, hosts: [a.example]", f"bind: 127.0.0.1:80, {TLS}", "bind-clash"),
        ("bind: 127.0.0.1:80", f"bind: 127.0.0.1:443, redirect_from: 127.0.0.1:80, {TLS}", "bind-clash"),
        ("bind: 127.0.0.1:81", f"bind: 127.0.0.1:443, redirect_from: 127.0.0.1:80, {TLS}", ""),
        ("bind: 127.0.0.1:80", "bind: 127.0.0.1:80", "duplicate-listener"),
        ("bind: 127.0.0.1:80", "bind: 127.0.0.1:80, hosts: [a.example]", ""),
    ],
)  # fmt: skip
def test_two_listeners(one: str, two: str, code: str) -> None:
    assert codes(f"  one: {{{one}}}\n  two: {{{two}}}") == ([code] if code else [])


@pytest.mark.parametrize("bind", ["8404", "0.0.0.0:8404", "127.0.0.1:8404"])
def test_metrics_on_a_listener(bind: str) -> None:
    found = codes(f"  one: {{bind: '{bind}', auth: none}}", rest="metrics: {bind: '127.0.0.1:8404'}\n")
    assert "bind-clash" in found


@pytest.mark.parametrize(
    ("address", "bind", "loops"),
    [
        ("127.0.0.1:8080", "8080", True),
        ("[::1]:8080", "8080", True),
        ("[::1]:8080", "'[::]:8080'", True),
        ("127.0.0.2:8080", "127.0.0.1:8080", False),
        ("10.0.0.1:8080", "10.0.0.1:8080", True),
        ("10.0.0.1:8080", "8080", False),
    ],
)
def test_servers_that_are_the_balancer(address: str, bind: str, loops: bool) -> None:
    text = f"pools: {{chat: {{servers: ['{address}']}}}}\nlisteners: {{l: {{bind: {bind}, auth: none}}}}\n"
    found = [problem.code for problem in load([Source("fleet.yaml", text)], environ={}).problems]
    assert ("loop" in found) == loops


@pytest.mark.parametrize(
    "pool",
    [
        ", strategy: {name: session, client: true}",
        ", strategy: {name: prefix, scope: client}",
    ],
)
def test_strategies_by_client(pool: str) -> None:
    assert codes("  l: {bind: '127.0.0.1:80'}", pool) == ["per-client-without-auth"]
    assert codes("  l: {bind: '127.0.0.1:80', auth: {clients: all}}", pool, CLIENTS) == []


def test_a_split_by_client() -> None:
    split = "  l: {bind: '127.0.0.1:80', routes: [{split: {chat: 1}, by: client}]}"
    assert codes(split) == ["per-client-without-auth"]


def test_certificates_of_clients_are_auth() -> None:
    listener = "  l: {{bind: 443, tls: {{certificate: c.pem, key: k.pem{}}}}}"
    assert codes(listener.format("")) == ["open-listener"]
    assert codes(listener.format(", client_ca: ca.pem")) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", ["open-listener"]),
        (", allow: [10.0.0.0/8]", []),
        (", allow: [10.0.0.0/8, '::/0']", ["open-listener"]),
        (", deny: [10.0.0.0/8]", ["open-listener"]),
        (", behind_proxy: true, allow: [10.0.0.0/8]", ["one-address-for-all"]),
        (", behind_proxy: true, trusted_proxies: [10.0.0.9], allow: [10.0.0.0/8]", []),
    ],
)
def test_who_may_come_by_address(more: str, expected: list[str]) -> None:
    assert codes(f"  l: {{bind: 8080{more}}}") == expected


def test_clients_and_nothing_said_about_auth_is_one_error() -> None:
    assert codes("  l: {bind: 8080}", rest=CLIENTS) == ["listener-without-auth"]


def test_a_backup_beside_hashing_is_refused_by_nginx_itself() -> None:
    text = (
        "pools: {chat: {strategy: random_two, servers: [gpu-0:8000, {address: gpu-1:8000, backup: true}]}}\n"
        "listeners: {l: {bind: '127.0.0.1:80'}}\ntargets: {nginx: {}}\n"
    )
    found = load([Source("fleet.yaml", text)], environ={}).problems
    assert [(problem.code, problem.is_error) for problem in found] == [("target-refused", True)]


def test_routes_keep_their_order_only_where_it_decides() -> None:
    start = "  l: {bind: '127.0.0.1:80', routes: "
    assert codes(start + "[{pool: chat}, {path: /v1, pool: chat}, {path: /v1/x, pool: chat}]}") == []
    methods = "[{method: [GET, POST], pool: chat}, {method: POST, pool: chat}]}"
    assert codes(start + methods) == ["shadowed-route"]
    assert codes(start + "[{pool: chat}, {pool: chat}]}") == ["duplicate-route"]


def test_priorities_of_clients() -> None:
    clients = "clients: {team: {key: env:KEY, priority: 9}}\n"
    assert codes("  l: {bind: '127.0.0.1:80', auth: {clients: all}}", rest=clients) == [
        "priority-without-queue"
    ]
    capped = codes("  l: {bind: '127.0.0.1:80', auth: {clients: all}}", ", max_in_flight: 8", clients)
    assert capped == []


def rules_of(text: str, target: str = "haproxy") -> list[tuple[str, int]]:
    """Return code and line of what rules find."""
    found = load([Source("fleet.yaml", text)], environ={}, targets=(target,)).problems
    return [(problem.code, problem.location.line if problem.location else 0) for problem in found]


KEYS_CROSS = """pools: {chat: {servers: [gpu-0:8000]}}
clients: {team: {key: env:KEY}}
listeners:
  l: {bind: '%s', auth: %s%s}
"""


@pytest.mark.parametrize(
    ("bind", "auth", "rest", "found"),
    [
        ("0.0.0.0:80", "{clients: all}", "", True),
        ("0.0.0.0:80", "{external: {url: 'http://127.0.0.1:9000/'}}", "", True),
        ("0.0.0.0:80", "none", "", False),
        ("127.0.0.1:80", "{clients: all}", "", False),
        ("0.0.0.0:443", "{clients: all}", ", tls: {bundle: b.pem}", False),
        ("0.0.0.0:80", "{clients: all}", ", behind_proxy: true", False),
    ],
)
def test_keys_that_cross_a_network(bind: str, auth: str, rest: str, found: bool) -> None:
    codes_found = [code for code, _ in rules_of(KEYS_CROSS % (bind, auth, rest), "nginx")]
    assert ("keys-in-clear" in codes_found) is found


BEHIND = """pools:
  chat: {servers: [gpu-0:8000, gpu-1:8000], strategy: %s}
listeners:
  l:
    bind: 127.0.0.1:80
    behind_proxy: true
    %s
    limits:
      - {rate: 5/s, per: %s}
"""


@pytest.mark.parametrize(
    ("strategy", "trusted", "per", "lines"),
    [
        ("least_conn", "auth: none", "ip", [9]),
        ("least_conn", "auth: none", "total", []),
        ("least_conn", "trusted_proxies: [10.0.0.0/8]", "ip", []),
        ("{name: session, ip: true}", "auth: none", "total", [2]),
        ("{name: session, header: X-S}", "auth: none", "total", []),
    ],
)
def test_addresses_that_a_proxy_hides(strategy: str, trusted: str, per: str, lines: list[int]) -> None:
    found = rules_of(BEHIND % (strategy, trusted, per))
    assert [line for code, line in found if code == "one-address-for-all"] == lines


@pytest.mark.parametrize(
    ("listeners", "found"),
    [
        ("{l: {bind: '127.0.0.1:80', routes: [{pool: a}]}}", True),
        ("{l: {bind: '127.0.0.1:80', routes: [{path: /b, pool: b}, {pool: a}]}}", False),
        ("{l: {bind: '127.0.0.1:80', routes: [{pool: a, when_down: b}]}}", False),
    ],
)
def test_a_pool_that_no_route_leads_to(listeners: str, found: bool) -> None:
    text = f"pools: {{a: {{servers: [x:1]}}, b: {{servers: [y:1]}}}}\nlisteners: {listeners}\n"
    assert ("unreached-pool" in [code for code, _ in rules_of(text)]) is found


def test_an_unknown_pool_of_a_client_is_shown_where_it_stands() -> None:
    for pools, line in (("nobody", 4), ("[chat, nobody]", 4), ("\n      - chat\n      - nobody", 6)):
        text = f"pools: {{chat: {{servers: [x:1]}}}}\nclients:\n  team:\n    pools: {pools}\n    key: env:K\n"
        errors = [found for found in rules_of(text) if found[0] == "unknown-pool"]
        assert errors == [("unknown-pool", line)]
