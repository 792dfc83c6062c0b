"""TLS to clients and to servers, with certificates of an authority that the test makes."""

from __future__ import annotations

import ssl
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.edge import HOST, Ask, send
from integration.fleets import TARGETS, THREE
from integration.waiting import eventually

if TYPE_CHECKING:
    from integration.edge import Edge

TRIES = THREE
PLAIN, REDIRECT = 8080, 8081
FRONT, MODERN, MUTUAL = 8443, 8444, 8445

FLEET: dict[str, Any] = {
    "pools": {
        "main": {"engine": "vllm", "servers": ["gpu-0:8000"]},
        "acme": {"engine": "http", "servers": ["gpu-1:8000"]},
        # TLS servers are the balancer's own TLS listeners, by its container's name.
        "verified": {
            "engine": "openai",
            "servers": [f"lb:{FRONT}"],
            "tls": {"ca": "ca.pem", "server_name": HOST},
        },
        "misnamed": {
            "engine": "openai",
            "servers": [f"lb:{FRONT}"],
            "health": False,
            "tls": {"ca": "ca.pem", "server_name": "other.example.org"},
        },
        "unverified": {
            "engine": "openai",
            "servers": [f"lb:{FRONT}"],
            "tls": {"verify": False, "server_name": HOST},
        },
        "mutual": {
            "engine": "openai",
            "servers": [f"lb:{MUTUAL}"],
            "tls": {"ca": "ca.pem", "server_name": HOST, "certificate": "client.pem", "key": "client.pem"},
        },
    },
    "listeners": {
        "plain": {
            "bind": str(PLAIN),
            "routes": [
                {"path": "/verified", "pool": "verified"},
                {"path": "/misnamed", "pool": "misnamed"},
                {"path": "/unverified", "pool": "unverified"},
                {"path": "/mutual", "pool": "mutual"},
            ],
        },
        "front": {
            "bind": str(FRONT),
            "tls": {"bundle": "server.pem", "hsts": True},
            "redirect_from": REDIRECT,
            "acme": {"pool": "acme"},
            "routes": [{"path_exact": "/fixed", "respond": {"body": "x"}}, {"pool": "main"}],
        },
        "modern": {
            "bind": str(MODERN),
            "tls": {"bundle": "server.pem", "profile": "modern"},
            "http2": False,
            "routes": [{"pool": "main"}],
        },
        "mutual": {
            "bind": str(MUTUAL),
            "tls": {"bundle": "server.pem", "client_ca": "ca.pem"},
            "routes": [{"pool": "main"}],
        },
    },
}


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


@cache
def folder() -> Path:
    """Return a folder with the certificates of an authority, of a server, and of a client."""
    place = Path(tempfile.mkdtemp(prefix="lbgen-tls-"))
    openssl(place, "req", "-x509", *KEY, "-subj", "/CN=Test CA", "-keyout", "ca.key", "-out", "ca.pem")
    issue(place, "server", HOST, f"subjectAltName=DNS:{HOST}")
    issue(place, "client", "caller", "extendedKeyUsage=clientAuth")
    return place


def issue(place: Path, name: str, subject: str, extension: str) -> None:
    """Make a certificate of the authority, its key, and a file of both."""
    openssl(
        place, "req", "-x509", *KEY, "-CA", "ca.pem", "-CAkey", "ca.key", "-subj", f"/CN={subject}",
        "-addext", "basicConstraints=critical,CA:false", "-addext", extension,
        "-keyout", f"{name}.key", "-out", f"{name}.crt",
    )  # fmt: skip
    both = (place / f"{name}.crt").read_text() + (place / f"{name}.key").read_text()
    (place / f"{name}.pem").write_text(both)


def openssl(place: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True)


def beside() -> dict[str, str]:
    """Return the files that the fleet names."""
    return {
        name: (folder() / name).read_text()
        for name in ("ca.pem", "server.crt", "server.key", "server.pem", "client.pem")
    }


def trusting(
    *protocols: str, client: bool = False, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """Return a client's side that knows the authority."""
    context = ssl.create_default_context(cafile=str(folder() / "ca.pem"))
    context.maximum_version = newest
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if client:
        context.load_cert_chain(folder() / "client.pem")
    return context


def test_tls_leads_to_the_servers(edge: Edge) -> None:
    got = edge.same(Ask("/v1/x", host=f"{HOST}:{FRONT}"), FRONT, trusting())
    assert got.status == 200
    assert got.sent("x-forwarded-proto") == "https"
    assert edge.same(Ask("/v1/x"), MODERN, trusting()).status == 200


@pytest.mark.parametrize("path", ["/v1/x", "/fixed"])
def test_hsts_where_it_was_asked_for(edge: Edge, path: str) -> None:
    for got in edge.each(Ask(path), FRONT, trusting()).values():
        assert got.headers["strict-transport-security"] == "max-age=63072000"
    assert "strict-transport-security" not in edge.same(Ask("/v1/x"), MODERN, trusting()).headers


def test_profiles_bound_the_version(edge: Edge) -> None:
    old = trusting(newest=ssl.TLSVersion.TLSv1_2)
    assert edge.same(Ask("/v1/x"), FRONT, old).status == 200
    for balancer in edge.balancers.values():
        with pytest.raises(ssl.SSLError):
            send(balancer.address, MODERN, Ask("/"), old)


def test_a_refusal_over_http2_reaches_clients_that_still_send(edge: Edge) -> None:
    asked = f"-H 'Host: {HOST}' --data-binary @/tmp/body https://127.0.0.1:{FRONT}/%zz"
    wanted = "-o /dev/null -w '%{http_version} %{http_code} %{exitcode}\\n'"
    loop = f"for n in $(seq 40); do curl -sk --http2 {wanted} {asked}; done; true"
    # HAProxy 2.6 resets with an error. Envoy resets without one, which this curl reports as an error.
    for target in TARGETS if edge.generation != "bookworm" else ("nginx",):
        text = edge.balancers[target].run("sh", "-c", f"head -c 20000 /dev/zero >/tmp/body; {loop}")
        assert set(text.splitlines()) == {"2 400 0"}, target


@pytest.mark.parametrize(("port", "version"), [(FRONT, "2"), (MODERN, "1.1")])
def test_http2_is_spoken_where_it_is_on(edge: Edge, port: int, version: str) -> None:
    for balancer in edge.balancers.values():
        words = [
            "-sk",
            "--http2",
            "-o",
            "/dev/null",
            "-w",
            "%{http_version} %{http_code}",
            "-H",
            "x-mock-echo: {}",
        ]
        assert balancer.run("curl", *words, f"https://127.0.0.1:{port}/v1/x") == f"{version} 200"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v1/x?y=1", "/", "/a%2Fb"])
def test_plain_http_is_sent_to_https(edge: Edge, method: str, path: str) -> None:
    for got in edge.each(Ask(path, method, body=b"x"), REDIRECT).values():
        assert (got.status, got.headers["location"]) == (308, f"https://{HOST}:{FRONT}{path}")


def test_acme_challenges_are_not_redirected(edge: Edge) -> None:
    got = edge.same(Ask("/.well-known/acme-challenge/token"), REDIRECT)
    assert (got.status, got.server) == (200, "gpu-1")
    assert got.seen["target"] == "/.well-known/acme-challenge/token"


def test_client_certificates_are_asked_for(edge: Edge) -> None:
    assert edge.same(Ask("/v1/x"), MUTUAL, trusting(client=True)).status == 200
    for name, balancer in edge.balancers.items():
        try:
            got = send(balancer.address, MUTUAL, Ask("/v1/x"), trusting())
        except OSError:  # the handshake fails; NGINX answers 401 instead
            assert name != "nginx"
        else:
            assert (got.status, got.code, got.server) == (401, "client_certificate_required", "")


def test_plain_http_on_a_tls_port_reaches_no_server(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        try:
            assert send(balancer.address, FRONT, Ask("/v1/x")).server == ""
        except OSError:
            continue  # HAProxy hangs up


@pytest.mark.parametrize("path", ["/verified", "/unverified", "/mutual"])
def test_tls_to_servers(edge: Edge, path: str) -> None:
    # Envoy sends nothing to a server whose first check has not passed, and these are listeners of its own.
    eventually(lambda: {got.status for got in edge.each(Ask(path)).values()} == {200}, 30, "its check passed")
    for got in edge.each(Ask(path)).values():
        assert (got.status, got.server, got.sent("x-forwarded-proto")) == (200, "gpu-0", "https")


def test_a_server_with_another_name_is_not_believed(edge: Edge) -> None:
    for got in edge.each(Ask("/misnamed")).values():
        assert got.status in {502, 503}
        assert not got.server


def test_keys_of_certificates_stay_out_of_what_is_rendered(edge: Edge) -> None:
    for target in TARGETS if edge.generation != "bookworm" else ("nginx",):
        assert not [file.path for file in edge.rendered[target] if "PRIVATE KEY" in file.text]
