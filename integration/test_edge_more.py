"""What not every target has: its metrics, certificates in a folder, HTTP/2 to servers, asking a service."""

from __future__ import annotations

import base64
import json
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from integration import test_edge_tls as certificates
from integration.asked_service import AskedService
from integration.conftest import renewed
from integration.curl import send_by_curl
from integration.debian import ImageError
from integration.edge import HOST, Ask
from integration.edge_apart import (
    ASKING,
    FOLDER,
    METRICS,
    OTHER,
    PAIR,
    PASSWORD,
    PLAIN,
    RPC,
    SECRETS,
    Around,
    One,
    asking,
    beside,
    errors_of,
    fleet_for,
    has_h2c,
    has_plain_http2,
)  # fmt: skip
from integration.fleets import Proxy, files
from integration.http2_server import GRPC, Http2Server
from integration.waiting import eventually
from lbgen.targets.nginx.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig


@pytest.fixture(scope="module")
def around(rig: Rig) -> Iterator[Around]:
    with Http2Server(rig.gateway) as http2, AskedService(rig.gateway) as asked:
        yield Around(http2, asked)


@pytest.fixture(scope="module")
def one(module_proxy: Proxy, rig: Rig, running_mocks: list[MockBox], around: Around) -> Iterator[One]:
    """Each balancer of each generation, with all that it has."""
    renewed(running_mocks)
    try:
        rendered = files(fleet_for(module_proxy, around), module_proxy, SECRETS)
        balancer = rig.balancer(module_proxy.target, module_proxy.image, (*rendered, *beside()))
    except ImageError as error:
        pytest.skip(str(error))
    try:
        yield One(module_proxy, balancer, around)
    finally:
        balancer.remove()


def basic(password: str, user: str = "ops") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


PAGES = {
    "nginx": {"/stub_status": b"Active connections"},
    "haproxy": {"/metrics": b"haproxy_backend_status{", "/stats": b"Statistics Report"},
}


def test_figures_are_for_who_knows_the_password(one: One) -> None:
    for page, text in PAGES[one.proxy.target].items():
        got = one.get(METRICS, Ask(page, headers=basic(PASSWORD)))
        assert (got.status, text in got.body) == (200, True), (page, got)
        for wrong in ({}, basic(PASSWORD.upper()), basic(PASSWORD, "OPS"), basic(PASSWORD + "x")):
            got = one.get(METRICS, Ask(page, headers=wrong))
            assert (got.status, text in got.body) == (401, False), (page, wrong)
            assert got.headers["www-authenticate"].startswith("Basic"), got


def test_figures_are_for_allowed_networks(one: One) -> None:
    for page in PAGES[one.proxy.target]:
        words = ("-o", "/dev/null", "-w", "%{http_code}", "-u", f"ops:{PASSWORD}")
        assert one.curl(*words, f"http://127.0.0.1:{METRICS}{page}") == "403"
        assert one.curl(*words, f"http://{one.balancer.address}:{METRICS}{page}") == "200"


@pytest.mark.parametrize("page", ["/live", "/ready"])
def test_probes_of_the_metrics_listener_need_nothing(one: One, page: str) -> None:
    got = one.get(METRICS, Ask(page))
    assert (got.status, json.loads(got.body)["status"]) == (200, "ok")


def test_other_pages_are_not_there(one: One) -> None:
    got = one.get(METRICS, Ask("/v1/models", headers=basic(PASSWORD)))
    assert (got.status, got.server) == (404, "")


def test_certificate_and_key_are_two_files(one: One) -> None:
    got = one.get(PAIR, Ask("/v1/x"), tls=certificates.trusting())
    assert (got.status, got.sent("x-forwarded-proto")) == (200, "https")


@pytest.mark.parametrize("host", [HOST, OTHER])
def test_a_folder_has_a_certificate_for_each_name(one: One, host: str) -> None:
    if one.proxy.target == "haproxy":
        got = one.get(FOLDER, Ask("/v1/x", host=host), tls=certificates.trusting())
        assert got.status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            one.get(PAIR, Ask("/v1/x", host=OTHER), tls=certificates.trusting())
    else:
        listener = {"bind": "443", "tls": {"directory": "certs/"}, "routes": [{"pool": "main"}]}
        refused(one.proxy, {"folder": listener}, "NGINX needs them listed", "a listener for each host")


def refused(proxy: Proxy, changed: dict[str, Any], reason: str, instead: str, **pool: Any) -> None:
    """See that listeners and a pool like these are refused, once, with the reason and a way out."""
    pools = {"main": {"engine": "http", "servers": ["gpu-0:8000"], **pool}}
    errors = errors_of({"pools": pools, "listeners": changed}, proxy)
    assert [error.code for error in errors] == ["target-refused"], errors
    assert reason in errors[0].message
    assert instead in (errors[0].hint or "")


TEXT = ("-H", "Content-Type: text/plain")


def test_h2c_reaches_the_servers_or_is_refused(one: One) -> None:
    if has_h2c(one.proxy):
        got = send_by_curl(
            one.balancer, f"http://127.0.0.1:{PLAIN}/h2c/x?y=1", "-H", "Content-Type: text/plain"
        )
        assert got.status == 200, got
        seen = json.loads(got.body)
        assert (seen["body_bytes"], seen["headers"]["x-given"]) == (len("question"), "1")
        assert (seen["headers"][":method"], seen["headers"][":path"]) == ("POST", "/h2c/x?y=1")
        assert "connection" not in seen["headers"]
    else:
        listener = {"bind": "8080", "routes": [{"pool": "main"}]}
        reason = f"needs NGINX {FEATURES['http2_upstream'].since}"
        refused(one.proxy, {"plain": listener}, reason, "protocol: grpc", protocol="h2c")


def test_checks_speak_http2_too(one: One) -> None:
    """The server hangs up on HTTP/1, and HAProxy takes it for up until then."""
    if one.proxy.target == "haproxy":
        asked = one.around.http2.asked["/healthz"]
        eventually(lambda: one.around.http2.asked["/healthz"] > asked + 1, 10, "the server is asked")
        got = one.get(METRICS, Ask("/stats;csv", headers=basic(PASSWORD)))
        lines = got.body.decode().splitlines()
        [line] = [line for line in lines if line.startswith("h2c,") and ",BACKEND," not in line]
        assert ",UP," in line
        assert "L7OK," in line  # `*` before it: another check is under way


LARGE = "/etc/ssl/certs/ca-certificates.crt"
"""A file in every container: larger than the windows of HTTP/2 are at first."""


def test_large_bodies_arrive_whole(one: One) -> None:
    size = int(one.balancer.run("wc", "-c", LARGE).split()[0])
    assert size > 100_000
    urls: list[tuple[str, tuple[str, ...]]] = [(f"https://127.0.0.1:{PAIR}/rpc.Service/Do", GRPC_WORDS)]
    if has_h2c(one.proxy):
        urls.append((f"http://127.0.0.1:{PLAIN}/h2c/x", TEXT))
    for url, words in urls:
        got = send_by_curl(one.balancer, url, "--data-binary", f"@{LARGE}", *words)
        assert json.loads(got.body)["body_bytes"] == len("question&") + size


GRPC_WORDS = ("-H", f"Content-Type: {GRPC}", "-H", "TE: trailers")


def called(one: One, protocol: str, url: str) -> None:
    """See that a gRPC call comes through whole: HTTP/2 on both sides, its body, its trailers."""
    got = send_by_curl(one.balancer, url, protocol, *GRPC_WORDS)
    assert (got.version, got.status, got.headers.get("grpc-status")) == ("HTTP/2", 200, "0"), got
    seen = json.loads(got.body)
    assert (seen["body_bytes"], seen["headers"][":path"]) == (len("question"), "/rpc.Service/Do")
    assert seen["headers"].get("te") == "trailers"


def test_grpc_behind_tls(one: One) -> None:
    called(one, "--http2", f"https://127.0.0.1:{PAIR}/rpc.Service/Do")


def test_grpc_without_tls_or_refused(one: One) -> None:
    if has_plain_http2(one.proxy):
        called(one, "--http2-prior-knowledge", f"http://127.0.0.1:{RPC}/rpc.Service/Do")
        assert one.get(RPC, Ask("/lb/ready")).status == 200
    else:
        listener = {"bind": "8080", "routes": [{"pool": "main"}]}
        refused(one.proxy, {"rpc": listener}, "needs HTTP/2 from clients", "add tls", protocol="grpc")


ASKED: tuple[tuple[dict[str, str], int, str], ...] = (
    ({"Authorization": "Bearer good"}, 200, ""),
    ({}, 401, "invalid_api_key"),
    ({"Authorization": "Bearer other"}, 403, "forbidden"),
)


@pytest.mark.parametrize(("headers", "status", "code"), ASKED)
def test_a_service_says_who_comes_in(one: One, headers: dict[str, str], status: int, code: str) -> None:
    if one.proxy.target == "haproxy":
        listener = {"asking": asking("http://auth:9000/check")}
        refused(one.proxy, listener, "HAProxy cannot ask another service", "auth: {clients: all}")
        return
    one.around.asked.questions.clear()
    got = one.get(ASKING, Ask("/v1/x?y=1", "POST", {**headers, "X-Team": "a", "X-Own": "b"}, b"question"))
    assert got.status == status
    if code:
        assert (got.code, got.server) == (code, "")
    else:
        assert (got.seen["body_bytes"], got.sent("authorization")) == (len(b"question"), None)
    [(path, seen)] = one.around.asked.questions
    assert (path, seen["x-original-uri"], seen["x-original-method"]) == ("/check", "/v1/x?y=1", "POST")
    assert (seen.get("authorization"), seen["x-team"]) == (headers.get("Authorization"), "a")
    assert seen.keys().isdisjoint({"x-own", "content-length", "transfer-encoding"})


def test_nobody_comes_in_when_the_service_fails(one: One) -> None:
    if one.proxy.target == "nginx":
        got = one.get(ASKING, Ask("/v1/x", headers={"Authorization": "Bearer broken"}))
        assert (got.status, got.code, got.server) == (500, "internal_error", "")


def test_who_need_not_be_asked_about(one: One) -> None:
    if one.proxy.target == "nginx":
        one.around.asked.questions.clear()
        words = ("-o", "/dev/null", "-w", "%{http_code}", "-H", "x-mock-echo: {}")
        assert one.curl(*words, f"http://127.0.0.1:{ASKING}/v1/x") == "200"
        for path in ("/lb/live", "/lb/ready"):
            assert one.get(ASKING, Ask(path)).status == 200
        assert not one.around.asked.questions
        assert one.curl(*words, f"http://{one.balancer.address}:{ASKING}/v1/x") == "401"
