"""Listeners on one address: by name each has its authority, TLS profile and keys, in any order of writing."""

from __future__ import annotations

import socket
import ssl
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import Ask, send
from integration.test_edge_tls import KEY as KEY_WORDS
from integration.test_edge_tls import openssl
from integration.test_hostile_requests import ask, request

if TYPE_CHECKING:
    from integration.edge import Edge
    from lbgen.lab.boxes import Balancer

LISTED = ("nginx", "haproxy")
"""The targets that hold all of this."""

PLAIN, PLAIN_HOSTS, FIRST = 8080, 8081, 8443
KEY = "a-key-that-nobody-guesses"
SECRETS = {"KEY": KEY}
A, B, WILD, OPEN, NONE = (
    "a.example.org",
    "b.example.org",
    "x.w.example.org",
    "open.example.org",
    "no.example.org",
)
MAIN = [{"pool": "main"}]
TLS = {"bundle": "server.pem"}

NAMED: dict[str, Any] = {
    "a": {
        "hosts": [A, "*.w.example.org"],
        "auth": "none",
        "tls": {**TLS, "client_ca": "ca-a.pem", "profile": "modern"},
        "routes": MAIN,
    },
    "b": {"hosts": [B], "auth": "none", "tls": {**TLS, "client_ca": "ca-b.pem"}, "routes": MAIN},
    "open": {"hosts": [OPEN], "auth": {"clients": "all"}, "tls": TLS, "http2": False, "routes": MAIN},
}
REST: dict[str, Any] = {"auth": "none", "tls": {**TLS, "client_ca": "ca-b.pem"}, "routes": MAIN}
ORDERS = (
    ("a", "b", "open"),
    ("b", "a", "open"),
    ("open", "b", "a"),
    ("rest", "open", "a", "b"),
    ("a", "rest", "b", "open"),
    ("open", "b", "a", "rest"),
)
PORTS = {order: FIRST + number for number, order in enumerate(ORDERS)}
WITH_REST = [port for order, port in PORTS.items() if "rest" in order]
WITHOUT_REST = [port for order, port in PORTS.items() if "rest" not in order]


def listeners() -> dict[str, Any]:
    """Return the same listeners on an address for each order of writing."""
    found: dict[str, Any] = {}
    for order, port in PORTS.items():
        for name in order:
            found[f"{name}-{port}"] = {**{**NAMED, "rest": REST}[name], "bind": str(port)}
    named = {"bind": str(PLAIN), "hosts": [OPEN], "auth": "none", "routes": MAIN}
    keyed = {"bind": str(PLAIN), "auth": {"clients": "all"}, "routes": MAIN}
    return found | {
        "plain-named": named,
        "plain-rest": keyed,
        "hosts-a": {**named, "bind": str(PLAIN_HOSTS)},
        "hosts-b": {**keyed, "bind": str(PLAIN_HOSTS), "hosts": ["*.example.org"]},
        "hosts-c": {**named, "bind": str(PLAIN_HOSTS), "hosts": ["*.w.example.org"]},
    }


FLEET: dict[str, Any] = {
    "pools": {"main": {"engine": "vllm", "servers": ["gpu-0:8000"]}},
    "clients": {"team": {"key": "env:KEY"}},
    "listeners": listeners(),
    # NGINX before 1.30 has one profile for all names of an address, and says so.
    "targets": {"nginx": {"without": ["tls.profile"]}, "haproxy": {}},
}


@cache
def folder() -> Path:
    """Return a folder with two authorities, a client's certificate of each, and a server's."""
    place = Path(tempfile.mkdtemp(prefix="lbgen-tls-"))
    for name in ("a", "b", "server"):
        openssl(
            place, "req", "-x509", *KEY_WORDS, "-subj", f"/CN={name}", "-keyout", "k.pem", "-out", "c.pem"
        )
        (place / f"ca-{name}.pem").write_text((place / "c.pem").read_text())
        (place / f"{name}.pem").write_text((place / "c.pem").read_text() + (place / "k.pem").read_text())
    return place


def beside() -> dict[str, str]:
    return {name: (folder() / name).read_text() for name in ("ca-a.pem", "ca-b.pem", "server.pem")}


def context(certificate: str = "", newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Return a client's side that shows this certificate. It does not care whom it speaks to."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode, made.maximum_version = False, ssl.CERT_NONE, newest
    if certificate:
        made.load_cert_chain(folder() / f"{certificate}.pem")
    return made


class RefusedError(Exception):
    """The handshake failed."""


def status(
    where: tuple[str, int], name: str | None, host: str, tls: ssl.SSLContext, resume: Any = None
) -> tuple[int, Any]:
    """Ask for a host on a connection for a name; raises `RefusedError`. NGINX says no with 400 or 401."""
    try:
        plain = socket.create_connection(where, timeout=10)
        with tls.wrap_socket(plain, server_hostname=name, session=resume) as peer:
            peer.sendall(request(f"Authorization: Bearer {KEY}", host=host))
            answer = b"".join(iter(lambda: peer.recv(65_536), b""))
            return int(answer.split()[1]), peer.session
    except ssl.SSLError as error:
        raise RefusedError from error


def gets(balancer: Balancer, port: int, name: str | None, host: str, tls: ssl.SSLContext) -> int:
    try:
        return status((balancer.address, port), name, host, tls)[0]
    except RefusedError:
        return 0


NO = {0, 400, 401, 403, 421}


@pytest.mark.parametrize("target", LISTED)
@pytest.mark.parametrize("port", PORTS.values(), ids=("-".join(order) for order in ORDERS))
def test_each_name_has_its_own_authority(edge: Edge, target: str, port: int) -> None:
    box = edge.balancers[target]
    for host, right, wrong in ((A, "a", "b"), (WILD, "a", "b"), (B, "b", "a")):
        assert gets(box, port, host, host, context(right)) == 200, host
        assert gets(box, port, host, host.upper(), context(right)) == 200, host
        assert gets(box, port, host, host, context(wrong)) in NO, host
        assert gets(box, port, host, host, context()) in NO, host
    assert gets(box, port, OPEN, OPEN, context()) == 200


@pytest.mark.parametrize("target", LISTED)
@pytest.mark.parametrize("port", PORTS.values(), ids=("-".join(order) for order in ORDERS))
def test_a_connection_for_one_name_opens_no_other(edge: Edge, target: str, port: int) -> None:
    box = edge.balancers[target]
    for name, host, shown in (
        (OPEN, A, ""), (OPEN, B, ""), (A, B, "a"), (B, A, "b"), (None, A, ""), (None, A, "b"), (NONE, A, "b"),
        (None, B, ""), (NONE, B, "a"), ("deep.x.w.example.org", "deep.x.w.example.org", "b"),
        ("deep.x.w.example.org", WILD, "b"), (WILD, B, "a"), (OPEN, WILD, ""),
    ):  # fmt: skip
        assert gets(box, port, name, host, context(shown)) in NO | {404}, (name, host, shown)


@pytest.mark.parametrize("target", LISTED)
@pytest.mark.parametrize("port", WITH_REST)
def test_a_listener_without_hosts_asks_for_its_certificate(edge: Edge, target: str, port: int) -> None:
    box = edge.balancers[target]
    for name in (None, NONE):
        assert gets(box, port, name, NONE, context("b")) == 200
        assert gets(box, port, name, NONE, context("a")) in NO
        assert gets(box, port, name, NONE, context()) in NO
    assert gets(box, port, OPEN, NONE, context()) in NO
    assert gets(box, port, A, NONE, context("a")) in NO


@pytest.mark.parametrize("target", LISTED)
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_is_resumed_for_another_name(edge: Edge, target: str, newest: ssl.TLSVersion) -> None:
    box = edge.balancers[target]
    for port in (WITH_REST[0], WITHOUT_REST[0]):
        for first, second, shown in ((OPEN, A, ""), (OPEN, B, ""), (A, B, "a"), (B, A, "b"), (B, NONE, "b")):
            tls = context(shown, newest)
            try:
                _, session = status((box.address, port), first, first, tls)
                again, _ = status((box.address, port), second, second, tls, session)
            except RefusedError:
                continue
            assert again in NO | ({200} if (second, shown) == (NONE, "b") else set()) | {404}, (first, second)


@pytest.mark.parametrize("target", LISTED)
@pytest.mark.parametrize("port", WITHOUT_REST)
def test_each_name_has_its_own_profile(edge: Edge, target: str, port: int) -> None:
    if target == "nginx" and edge.generation != "sid":
        return  # refused, unless its loss is accepted
    box, old = edge.balancers[target], ssl.TLSVersion.TLSv1_2
    assert gets(box, port, A, A, context("a", old)) == 0
    assert gets(box, port, B, B, context("b", old)) == 200
    assert gets(box, port, OPEN, OPEN, context("", old)) == 200


@pytest.mark.parametrize("target", LISTED)
def test_who_has_no_listener_is_asked_for_the_keys_of_the_rest(edge: Edge, target: str) -> None:
    address = edge.balancers[target].address
    assert ask(address, PLAIN, request(host=OPEN)).status == 200
    assert ask(address, PLAIN, request(host=f"{OPEN}.:80")).status == 200
    for host in (NONE, "", "192.0.2.1", f"{OPEN},x", f"x,{OPEN}", f"x.{OPEN}"):
        assert ask(address, PLAIN, request(host=host)).status in {400, 401}, host


@pytest.mark.parametrize("target", LISTED)
def test_the_longest_wildcard_is_taken_in_any_order(edge: Edge, target: str) -> None:
    address = edge.balancers[target].address
    assert ask(address, PLAIN_HOSTS, request(host=WILD)).status == 200
    assert ask(address, PLAIN_HOSTS, request(host=B)).status == 401
    assert ask(address, PLAIN_HOSTS, request(host="other.example.com")).status == 404


@pytest.mark.parametrize("target", LISTED)
@pytest.mark.parametrize("path", ["/lb/live", "/lb/ready"])
def test_probes_are_answered_for_any_host(edge: Edge, target: str, path: str) -> None:
    box = edge.balancers[target]
    assert send(box.address, PLAIN_HOSTS, Ask(path, host="192.0.2.1")).status == 200
    assert send(box.address, WITHOUT_REST[0], Ask(path, host="192.0.2.1"), context()).status == 200
