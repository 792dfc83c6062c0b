"""What not every target has: its metrics, certificates in a folder, HTTP/2 to servers, asking a service."""

from __future__ import annotations

import base64
import json
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration import test_edge_tls as certificates
from integration.asked_service import AskedService
from integration.conftest import renewed
from integration.curl import send_by_curl
from integration.debian import ImageError
from integration.edge import HOST, Ask, send
from integration.fleets import Proxy, files
from integration.http2_server import GRPC, Http2Server
from integration.waiting import eventually
from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.render import RenderedFile
from lbgen.targets.nginx.features import FEATURES, has
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig
    from lbgen.problems import Problem

PLAIN, RPC, ASKING, METRICS, PAIR, FOLDER = 8080, 8084, 8085, 8404, 8443, 8444
OTHER = "other.example.org"
PASSWORD = "s3cret: $p"
SECRETS = {"METRICS": PASSWORD}


class Around(NamedTuple):
    """What runs on this machine, for the balancers to reach."""

    http2: Http2Server
    asked: AskedService


class One(NamedTuple):
    """A balancer, and what it is."""

    proxy: Proxy
    balancer: Balancer
    around: Around

    def get(self, port: int, ask: Ask, **more: Any) -> Any:
        """Send a request."""
        return send(self.balancer.address, port, ask, **more)

    def curl(self, *words: str) -> str:
        """Ask from inside the container, where HTTP/2 is spoken."""
        return self.balancer.run("curl", "-sk", "--max-time", "10", *words)


def has_h2c(proxy: Proxy) -> bool:
    return proxy.target == "haproxy" or has(Version.parse(proxy.version), "http2_upstream")


def has_plain_http2(proxy: Proxy) -> bool:
    return proxy.target == "haproxy" or has(Version.parse(proxy.version), "http2_directive")


def errors_of(fleet: dict[str, Any], proxy: Proxy) -> list[Problem]:
    """Return what is wrong with a fleet for one target and version."""
    source, versions = Source("f.yaml", json.dumps(fleet)), {proxy.target: proxy.version}
    loaded = load([source], environ={}, targets=(proxy.target,), versions=versions)
    return [problem for problem in loaded.problems if problem.is_error]


def fleet_for(proxy: Proxy, around: Around) -> dict[str, Any]:
    """Return all that this target has in this version."""
    server = {"engine": "http", "servers": [around.http2.address]}
    pools: dict[str, Any] = {
        "main": {"engine": "vllm", "servers": ["gpu-0:8000"]},
        "rpc": {**server, "protocol": "grpc"},
    }
    main = [{"pool": "main"}]
    secure = [{"path": "/rpc.Service", "pool": "rpc"}, *main]
    listeners: dict[str, Any] = {
        "plain": {"bind": str(PLAIN), "routes": main},
        "pair": {"bind": str(PAIR), "tls": pair(proxy), "routes": secure},
    }
    if has_h2c(proxy):
        pools["h2c"] = {**server, "protocol": "h2c", "health": {"path": "/healthz", "interval": "1s"}}
        listeners["plain"]["routes"] = [{"path": "/h2c", "pool": "h2c"}, *main]
    if has_plain_http2(proxy):
        listeners["rpc"] = {"bind": str(RPC), "routes": [{"pool": "rpc"}]}
    if proxy.target == "haproxy":
        listeners["folder"] = {"bind": str(FOLDER), "tls": {"directory": "certs/"}, "routes": main}
    else:
        listeners["asking"] = asking(around.asked.url)
    auth = {"user": "ops", "password": "env:METRICS"}
    metrics = {"bind": str(METRICS), "allow": ["10.0.0.0/8"], "auth": auth}
    return {"pools": pools, "listeners": listeners, "metrics": metrics}


def pair(proxy: Proxy) -> dict[str, str]:
    """Return certificate and key: HAProxy 2.6 wants both in one file, which lbgen makes where they are."""
    here = f"{certificates.folder()}/" if str(proxy) == "bookworm-haproxy" else ""
    return {"certificate": f"{here}server.crt", "key": f"{here}server.key"}


def asking(url: str) -> dict[str, Any]:
    """Return a listener that asks a service."""
    external = {"url": url, "forward": ["Authorization", "X-Team"]}
    return {"bind": str(ASKING), "auth": {"external": external}, "routes": [{"pool": "main"}]}


def beside() -> tuple[RenderedFile, ...]:
    """Return certificates: a pair of files, and a folder with one for each of two names."""
    place = certificates.folder()
    certificates.issue(place, "other", OTHER, f"subjectAltName=DNS:{OTHER}")
    named = {
        "server.crt": "server.crt",
        "server.key": "server.key",
        "certs/a.pem": "server.pem",
        "certs/b.pem": "other.pem",
    }
    return tuple(RenderedFile(path, (place / name).read_text()) for path, name in named.items())


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
        refused(one.proxy, {"folder": listener}, "NGINX wants them listed", "a listener for each host")


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
        assert (seen["body"], seen["headers"]["x-given"]) == ("question", "1")
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


GRPC_WORDS = ("-H", f"Content-Type: {GRPC}", "-H", "TE: trailers")


def called(one: One, protocol: str, url: str) -> None:
    """See that a gRPC call comes through whole: HTTP/2 on both sides, its body, its trailers."""
    got = send_by_curl(one.balancer, url, protocol, *GRPC_WORDS)
    assert (got.version, got.status, got.headers.get("grpc-status")) == ("HTTP/2", 200, "0"), got
    seen = json.loads(got.body)
    assert (seen["body"], seen["headers"][":path"]) == ("question", "/rpc.Service/Do")
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
        refused(one.proxy, listener, "HAProxy asks no other service", "auth: {clients: all}")
        return
    one.around.asked.questions.clear()
    got = one.get(ASKING, Ask("/v1/x?y=1", "POST", {**headers, "X-Team": "a", "X-Own": "b"}, b"question"))
    assert got.status == status
    assert got.code == code if code else got.seen["body_bytes"] == len(b"question")
    [(path, seen)] = one.around.asked.questions
    assert (path, seen["x-original-uri"], seen["x-original-method"]) == ("/check", "/v1/x?y=1", "POST")
    assert (seen.get("authorization"), seen["x-team"]) == (headers.get("Authorization"), "a")
    assert seen.keys().isdisjoint({"x-own", "content-length", "transfer-encoding"})


def test_nobody_comes_in_when_the_service_fails(one: One) -> None:
    if one.proxy.target == "nginx":
        got = one.get(ASKING, Ask("/v1/x", headers={"Authorization": "Bearer broken"}))
        assert (got.status, got.code, got.server) == (500, "internal_error", "")
