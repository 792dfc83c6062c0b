"""Every way to spell that the balancer calls itself, or that two things want one address."""

from __future__ import annotations

import socket

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

PEERS = 'balancers: {peers: {lb-0: "10.0.0.1:10000", lb-1: "10.0.0.2:10000"}}\n'
TLS = "tls: {certificate: c.pem, key: k.pem}"
CODES = ("loop", "loop-by-name", "bind-clash", "unspecified-server")


def found(text: str) -> list[str]:
    """Return the codes of these rules; each finding has a place."""
    problems = [one for one in load([Source("fleet.yaml", text)], environ={}).problems if one.code in CODES]
    assert all(one.location for one in problems)
    return [one.code for one in problems]


def errors(text: str) -> list[str]:
    return [one.code for one in load([Source("fleet.yaml", text)], environ={}).problems if one.is_error]


@pytest.mark.parametrize(
    "bind", ["12100", "0.0.0.0:12100", "'[::]:12100'", "127.0.0.1:12100", "localhost:12100"]
)
@pytest.mark.parametrize(
    "server",
    ["0.0.0.0:12100", "127.0.0.1:12100", "localhost:12100", "LOCALHOST.:12100", "ip6-localhost:12100"],
)
def test_a_server_on_the_listener_itself(server: str, bind: str) -> None:
    text = f"pools: {{chat: {{servers: ['{server}']}}}}\nlisteners: {{l: {{bind: {bind}, auth: none}}}}\n"
    assert found(text) == ["loop"]


@pytest.mark.parametrize(
    ("server", "bind", "loops"),
    [
        ("[::]:12100", "12100", True),
        ("[::1]:12100", "12100", True),
        ("[::]:12100", "'[::1]:12100'", True),
        ("127.0.0.1:12100", "'[::1]:12100'", False),
        ("127.0.0.5:12100", "12100", True),
        ("10.0.0.7:12100", "10.0.0.7:12100", True),
        ("lb.internal:12100", "LB.internal:12100", True),
        ("10.0.0.7:12100", "12100", False),
        ("127.0.0.1:12101", "12100", False),
    ],
)
def test_other_addresses(server: str, bind: str, loops: bool) -> None:
    text = f"pools: {{chat: {{servers: ['{server}']}}}}\nlisteners: {{l: {{bind: {bind}, auth: none}}}}\n"
    assert ("loop" in found(text)) == loops


@pytest.mark.parametrize(
    "text",
    [
        "pools: {chat: {servers: ['10.0.0.7:80']}}\nlisteners: {a: {bind: 80}, b: {bind: '10.0.0.7:81'}}\n",
        "pools: {chat: {servers: ['10.0.0.2:80']}}\nlisteners: {a: {bind: 80, auth: none}}\n" + PEERS,
        "pools: {chat: {servers: ['127.0.0.1:80']}}\n"  # noqa: ISC004 - one text
        f"listeners: {{a: {{bind: 443, redirect_from: 80, {TLS}}}}}\n",
        "pools: {chat: {servers: ['127.0.0.1:8404']}}\nmetrics: {bind: '127.0.0.1:8404'}\n",
        "pools: {chat: {servers: ['10.0.0.1:10000']}}\n" + PEERS,
        "pools: {chat: {servers: ['127.0.0.1:8406'], engine: vllm, strategy: kv_cache}}\ntargets: {haproxy: {}}\n",  # noqa: E501 - one text
        "pools: {chat: {servers: ['127.0.0.1:8000'], health: {path: /, port: 8080}}}\n",
        "pools: {chat: {discover: {dns: localhost, port: 8080}}}\n",
        "pools: {chat: {servers: ['a:8000']}}\n"  # noqa: ISC004 - one text
        "listeners: {l: {bind: 80, auth: {external: {url: 'http://127.0.0.1/check'}}}}\n",
    ],
    ids=[
        "an address that another bind names",
        "a listener of the balancer beside",
        "a redirect",
        "metrics",
        "a peer",
        "the agent",
        "a health check's port",
        "discovery",
        "who is asked about keys",
    ],
)
def test_what_else_is_the_balancer_itself(text: str) -> None:
    assert "loop" in found(text)


def test_the_machines_own_name() -> None:
    name = socket.gethostname()
    text = f"pools: {{chat: {{servers: ['{name}:12100']}}}}\nlisteners: {{l: {{bind: 12100, auth: none}}}}\n"
    assert found(text) == ["loop-by-name"]
    assert found(text.replace(f"{name}:12100", f"{name}:12101")) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_server_at_every_address(host: str) -> None:
    text = f"pools: {{chat: {{servers: ['{host}:8000']}}}}\n"
    assert errors(text) == ["unspecified-server"]


@pytest.mark.parametrize(
    ("text", "clashes"),
    [
        ("listeners: {l: {bind: 8404, auth: none}}\nmetrics: {bind: '127.0.0.1:8404'}\n", True),
        ("listeners: {l: {bind: '10.0.0.7:8404', auth: none}}\nmetrics: {bind: '127.0.0.1:8404'}\n", False),
        (f"listeners: {{l: {{bind: 443, {TLS}, redirect_from: 80}}}}\nmetrics: {{bind: '127.0.0.1:80'}}\n", True),  # noqa: E501 - one text
        ("listeners: {l: {bind: 10000, auth: none}}\n" + PEERS, True),
        ("listeners: {l: {bind: '10.0.0.1:10000', auth: none}}\n" + PEERS, True),
        ("listeners: {l: {bind: '10.0.0.9:10000', auth: none}}\n" + PEERS, False),
        ("metrics: {bind: '10.0.0.2:10000', allow: [10.0.0.0/8]}\n" + PEERS, True),
        ('balancers: {peers: {a: "10.0.0.1:10000", b: "10.0.0.1:10000"}}\n', True),
        ('balancers: {peers: {a: "127.0.0.1:10000", b: "127.0.0.1:10001"}}\n', False),
        ("listeners: {a: {bind: 80, auth: none}, b: {bind: '0.0.0.0:80', hosts: [x], auth: none}}\n", True),
        ("listeners: {a: {bind: ['0.0.0.0:80', '[::]:80'], auth: none}}\n", False),
        ("listeners: {a: {bind: 80, auth: none}, b: {bind: '10.0.0.1:80', auth: none}}\n", False),
    ],
)  # fmt: skip
def test_two_things_on_one_address(text: str, clashes: bool) -> None:
    assert found("pools: {chat: {servers: [gpu-0:8000]}}\n" + text) == ["bind-clash"] * clashes


@pytest.mark.parametrize(
    ("text", "clashes"),
    [
        ("listeners: {l: {bind: 8406, auth: none}}\n", True),
        ("listeners: {l: {bind: '127.0.0.1:8406', auth: none}}\n", True),
        ("metrics: {bind: '127.0.0.1:8406'}\n", True),
        ("metrics: {bind: '127.0.0.1:8404'}\n", False),
    ],
)
@pytest.mark.parametrize("port", ["", ", agent_port: 8406"])
def test_the_agents_port(text: str, clashes: bool, port: str) -> None:
    pool = f"{{servers: [gpu-0:8000], engine: vllm, strategy: {{name: kv_cache{port}}}}}"
    pools = f"chat: {pool[:-1]}, models: [a]}}, more: {pool.replace('gpu-0', 'gpu-1')[:-1]}, models: [b]}}"
    start = f"pools: {{{pools}}}\ntargets: {{haproxy: {{}}}}\n"
    assert found(start + text) == ["bind-clash"] * clashes


def test_an_agent_elsewhere_takes_nothing_here() -> None:
    strategy = "{name: kv_cache, agent_host: 10.9.9.9}"
    text = f"pools: {{chat: {{servers: [gpu-0:8000], engine: vllm, strategy: {strategy}}}}}\n"
    assert found(text + "targets: {haproxy: {}}\nlisteners: {l: {bind: 8406, auth: none}}\n") == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("listeners: {l: {bind: 9901, auth: none}}\n", ["bind-clash"]),
        ("metrics: {bind: '127.0.0.1:9901'}\n", ["bind-clash"]),
        ("metrics: {bind: '127.0.0.1:9902'}\n", []),
        ("pools: {chat: {servers: ['127.0.0.1:9901']}}\n", ["loop"]),
    ],
)
def test_the_address_of_a_targets_own(text: str, codes: list[str]) -> None:
    pools = "" if "pools" in text else "pools: {chat: {servers: [gpu-0:8000]}}\n"
    assert found(f"{pools}{text}targets: {{envoy: {{}}}}\n") == codes
    assert found(f"{pools}{text}targets: {{nginx: {{}}}}\n") == []
    moved = f"{pools}{text.replace('9901', '9903')}targets: {{envoy: {{admin: 'localhost:9903'}}}}\n"
    assert found(moved) == codes


def test_a_name_is_no_address_of_envoys_admin() -> None:
    text = "pools: {chat: {servers: [gpu-0:8000]}}\ntargets: {envoy: {admin: 'lb.internal:9901'}}\n"
    assert errors(text) == ["bad-value"]
