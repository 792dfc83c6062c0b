"""How HAProxy keeps sessions: a hint, or a promise by a table or a cookie."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render


def rendered(strategy: str, listeners: str = "", own: str | None = None) -> str:
    pool = f"engine: http, strategy: {{name: session, {strategy}}}, servers: 'gpu-[0-3]:80'"
    text = f"pools:\n  chat: {{{pool}}}\n{listeners}"
    loaded = load([Source("fleet.yaml", text)], environ={}, targets=("haproxy",))
    assert loaded.fleet is not None, loaded.problems
    fleet = loaded.fleet
    return render(fleet._replace(balancers=fleet.balancers._replace(own=own)), "haproxy")[0].text


def backend(text: str) -> list[str]:
    return [line.strip() for line in text.partition("\nbackend chat ")[2].splitlines()]


def test_a_hint_gives_way_to_load() -> None:
    text = rendered("header: X-Chat")
    assert "hash-balance-factor 150" in backend(text)
    assert "stick" not in text
    assert "\npeers " not in text


@pytest.mark.parametrize(
    "source", ["header: X-Chat", "cookie: chat", "query: chat", "body: $.user", "ip: true"]
)
def test_a_promise_is_a_hash_without_a_bound_and_a_table(source: str) -> None:
    lines = backend(rendered(f"{source}, strict: true"))
    assert "balance hash var(txn.lb_session)" in lines
    assert "stick on var(txn.lb_session)" in lines
    assert not any("hash-balance-factor" in line for line in lines)


def test_what_servers_name_is_learned_from_their_responses() -> None:
    lines = backend(rendered("learn: {header: Mcp-Session-Id}"))
    assert "balance leastconn" in lines
    assert "stick match var(txn.lb_session)" in lines
    assert "stick store-response 'res.fhdr(Mcp-Session-Id),sha1'" in lines
    own = backend(rendered("learn: {header: X-Begun}, cookie: chat"))
    assert any("req.cook(chat)" in line for line in own)
    assert "stick store-response 'res.fhdr(X-Begun),sha1'" in own


def test_tables_outlive_a_reload() -> None:
    text = rendered("strict: true")
    assert "    localpeer lbgen\n" in text
    assert "    peer lbgen abns@lbgen-" in text
    peers = "balancers: {peers: {a: '10.0.0.1:1000', b: '10.0.0.2:1000'}}\n"
    shared = rendered("strict: true", peers, own="b")
    assert "    localpeer b\n" in shared
    assert "abns@" not in shared


TLS = """
listeners:
  a: {bind: "127.0.0.1:8443", tls: {bundle: both.pem}}
"""


def test_a_cookie_names_no_server_and_is_secure_where_all_is() -> None:
    plain, secure = backend(rendered("insert: lb")), backend(rendered("insert: lb", TLS))
    assert "cookie lb insert indirect nocache httponly dynamic" in plain
    assert "cookie lb insert indirect nocache httponly secure dynamic" in secure
    assert not any(" cookie " in line for line in plain if line.startswith("server "))
