"""What becomes of requests on the three programs of this machine: the same on each, as the reference says."""

from __future__ import annotations

import json
import re
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration.waiting import eventually
from tests.targets.site import TARGETS, Reply, Site, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from integration.envoy_site import MockServer

SECRETS = {"ONE": "sk-one", "TWO": "sk-two", "OPS": "sk-ops", "HALF": "sk-half", "ENGINE": "engine-key"}
PORTS = (
    "routes", "shared", "trusted", "keyed", "closed", "bodies", "limited", "cors", "exempt", "metrics",
    "behind", "narrow", "proxied", "run", "asking", "tunnels", "talks", "shared_out", "guessed",
)  # fmt: skip
SERVERS = ("a", "b", "spare", "door")
TO_A = [{"pool": "a"}]
FIELDS = {
    "size": "prompt_bytes", "most": "max_tokens", "asked": "model", "from": "client_address",
    "tenant": "header:X-Tenant", "place": "here",
}  # fmt: skip
"""Of the access log; Envoy has none of a fleet's own."""


def fleet(target: str, ports: Mapping[str, int], servers: Mapping[str, MockServer]) -> dict[str, Any]:
    """Return a fleet in which each listener is about one thing."""
    at = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    where = {name: f"127.0.0.1:{server.port}" for name, server in servers.items()}
    plain = {"engine": "vllm", "health": False}
    return {
        "pools": {
            "a": {
                **plain, "servers": [where["a"]],
                "headers": {"set": {"X-Set": "a"}, "remove": ["X-Debug"]},
                "response_headers": {"set": {"X-Level": "pool"}, "remove": ["X-Powered-By"]},
            },
            "b": {**plain, "servers": [where["b"]], "host_header": "inference.internal"},
            "c": {**plain, "servers": [where["spare"]]},
            "b_too": {**plain, "servers": [where["spare"]], "host_header": "inference.internal"},
            "named": {**plain, "servers": [f"localhost:{servers['spare'].port}"], "host_header": "backend"},
            "run": {**plain, "servers": [where["a"]], "admin": {"clients": ["ops", "10.0.0.0/8"]}},
            "run_too": {**plain, "servers": [where["spare"]], "admin": {"clients": ["one"]}},
            "dead": {"engine": "vllm", "servers": ["127.0.0.1:1"], "health": False},
        },
        "metrics": {"bind": at["metrics"]},
        "clients": {"one": {"key": "env:ONE"}, "two": {"key": "env:TWO", "pools": ["b"]},
                    "ops": {"key": "env:OPS"}, "half": {"key": "env:HALF", "pools": ["a"]}},
        **({} if target == "envoy" else {"logs": {"fields": FIELDS}}),
        "listeners": {
            "routes": {
                "bind": at["routes"], "auth": "none", "max_body": "1KiB",
                "routes": [
                    {"path": "/strip", "strip_prefix": True, "pool": "a"},
                    {"path": "/add", "add_prefix": "/api", "pool": "a"},
                    {"path": "/moved", "strip_prefix": True, "add_prefix": "/v9", "pool": "b"},
                    {"path": "/fixed",
                     "respond": {"status": 410, "body": "gone", "content_type": "text/html"}},
                    {"path": "/none", "respond": {"status": 204}},
                    {"path": "/post", "method": "POST", "pool": "b"},
                    {"path": "/tier", "header": {"X-Tier": "gold"}, "pool": "b"},
                    {"path": "/asked", "query": {"kind": "b*"}, "pool": "b"},
                    {"path": "/asked", "query": {"debug": "*"}, "pool": "a"},
                    {"path": "/ws", "websocket": True, "pool": "b"},
                    {"path": "/ws", "pool": "a"},
                    {"path": "/dead", "pool": "dead"},
                    {"path": "/backend", "pool": "named"},
                    {"path": "/internal", "strip_prefix": True, "pool": "b"},
                    {"path": "/each", "strip_prefix": True, "pool": "named"},
                    {"path": "/either", "strip_prefix": True, "split": {"b": 1, "b_too": 1}},
                    {"path": "/v1", "pool": "a"},
                    {"path_exact": "/v1/exact", "pool": "b"},
                    {"path": "/named", "host": ["h.org", "*.w.org"], "pool": "b"},
                ],
            },
            "first": {"bind": at["shared"], "hosts": ["one.org"], "auth": {"clients": "all"}, "routes": TO_A},
            "second": {"bind": at["shared"], "hosts": ["two.org", "*.two.org"], "auth": "none",
                       "allow": ["127.0.0.0/8"], "max_body": "999B",
                       "routes": [{"path": "/b", "pool": "b"}, {"path": "/a", "pool": "a"},
                                  {"path": "/tier", "header": {"X-Second": "1"}, "pool": "b"}]},
            "third": {"bind": at["shared"], "hosts": ["*.x.two.org"], "auth": "none", "deny": ["127.0.0.1"],
                      "routes": TO_A},
            "trusted": {"bind": at["trusted"], "auth": "none", "trusted_proxies": ["127.0.0.0/8"],
                        "behind_proxy": True, "routes": [{"path": "/s", "strip_prefix": True, "pool": "a"},
                                                         *TO_A]},
            "keyed": {"bind": at["keyed"], "auth": {"clients": "all", "upstream": {"set": "env:ENGINE"}},
                      "routes": [{"path": "/b", "pool": "b"}, *TO_A]},
            "run": {"bind": at["run"], "auth": {"clients": "all"},
                    "routes": [{"path": "/run", "strip_prefix": True, "pool": "run"},
                               {"model": "big-*", "pool": "b"}, {"model": "small", "pool": "a"}]},
            "tunnels": {"bind": at["tunnels"], "auth": {"clients": "all"}, "routes": [
                {"path": "/run", "strip_prefix": True, "websocket": True, "pool": "run"},
                {"model": "open", "websocket": True, "pool": "b"},
                {"model": "small", "pool": "a"}, {"model": "run", "pool": "run"}]},
            "talks": {"bind": at["talks"], "auth": "none", "websocket": True, "routes": [
                {"path": "/said", "respond": {"status": 410}}, {"model": "small", "pool": "a"},
                {"model": "plain", "websocket": False, "pool": "a"}, {"model": "plain", "pool": "b"}]},
            "shared_out": {"bind": at["shared_out"], "auth": {"clients": "all"}, "routes": [
                {"path": "/run", "strip_prefix": True, "split": {"run": 1, "run_too": 1}},
                {"split": {"a": 1, "c": 1}}]},
            "proxied": {"bind": at["proxied"], "auth": "none", "accept_proxy": True,
                        "trusted_proxies": ["127.0.0.1"], "routes": TO_A},
            **({} if target == "haproxy" else {"asking": asking(at["asking"], where["door"])}),
            "exempt": {"bind": at["exempt"], "routes": TO_A,
                       "auth": {"clients": "all", "except": ["127.0.0.0/8"]}},
            "behind": {"bind": at["behind"], "routes": TO_A, "trusted_proxies": ["127.0.0.0/8"],
                       "auth": {"clients": "all", "except": ["127.0.0.0/8"]}},
            "closed": {"bind": at["closed"], "auth": "none", "allow": ["10.0.0.0/8"], "routes": TO_A},
            "bodies": {
                "bind": at["bodies"], "auth": "none", "inspect": {"body": "4KiB"}, "max_body": "64KiB",
                "routes": [
                    {"path": "/size", "prompt_over": 100, "pool": "b"},
                    {"path": "/size", "prompt_under": 50, "pool": "b"},
                    {"path": "/size", "pool": "a"},
                    {"path": "/many", "max_tokens_over": 10, "pool": "b"},
                    {"path": "/many", "pool": "a"},
                    *({"path": "/azure/{model}", "strip_prefix": True, "add_prefix": "/v1", "model": model,
                       "pool": pool} for model, pool in (("big-*", "b"), ("small", "a"))),
                    {"path": "/form", "form": {"kind-of": "b*"}, "pool": "b"},
                    {"path": "/form", "form": {"debug": "*"}, "pool": "a"},
                    {"path": "/any", "model": "*", "pool": "a"},
                    {"model": "big-*", "pool": "b"},
                    {"model": ["small", "tiny"], "pool": "a"},
                ],
            },
            "limited": {"bind": at["limited"], "auth": "none", "routes": TO_A,
                        "limits": [{"rate": "2/h", "burst": 1, "per": "ip"}]},
            "guessed": {"bind": at["guessed"], "auth": {"clients": "all"}, "routes": TO_A,
                        "limits": [{"rate": "2/h", "burst": 1, "per": "ip"}]},
            "narrow": {"bind": at["narrow"], "auth": {"clients": ["one"]},
                       "cors": {"origins": ["https://chat.org"]}, "routes": [{"path": "/v1", "pool": "a"}]},
            "cors": {"bind": at["cors"], "auth": {"clients": ["one"]},
                     "cors": {"origins": ["https://chat.org"], "methods": ["GET", "POST"],
                              "expose": ["X-Usage"], "headers": ["Authorization", "X-Own"],
                              "credentials": True, "max_age": "10m"},
                     "response_headers": {"set": {"X-Level": "listener", "X-Here": "yes"}},
                     "routes": [{"path": "/b", "pool": "b",
                                 "response_headers": {"set": {"X-Level": "route"}}}, *TO_A]},
        },
    }  # fmt: skip


def asking(bind: str, door: str) -> dict[str, Any]:
    """Return a listener that asks a service, which HAProxy does not."""
    external = {"url": f"http://{door}/check?by=lb", "forward": ["Authorization", "X-Team"]}
    return {"bind": bind, "auth": {"external": external}, "routes": TO_A}


@pytest.fixture(scope="module", params=TARGETS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site") / request.param
    for parent in (folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    try:
        with running(request.param, partial(fleet, request.param), (PORTS, SERVERS), SECRETS, folder) as made:
            made.servers["a"].headers |= {"X-Powered-By": "a", "X-Level": "server", "Location": "/there"}
            yield made
    except LookupError as missing:
        pytest.skip(str(missing))


# routes


class Way(NamedTuple):
    """A request, the server that gets it and the path that it sees; no server: the status instead."""

    path: str
    server: str = ""
    seen: str = ""
    status: int = 200
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    host: str = "site.org"
    code: str = ""


ENVOY = {
    # It makes paths canonical, and shows servers those.
    "/v1//chat": {"seen": "/v1/chat"},
    "/%76%31/chat": {"seen": "/v1/chat"},
    "/v1/../fixed": {"status": 410, "code": ""},
    "/v1/./x": {"status": 200, "code": "", "server": "a", "seen": "/v1/x"},
    "/v1/..": {"status": 404, "code": "not_found"},
    "/v1/%2e%2e/x": {"status": 404, "code": "not_found"},
}  # fmt: skip
"""What is otherwise on Envoy, by path."""


def check(site: Site, port: str, way: Way) -> Reply:
    if site.target == "envoy":
        way = way._replace(**ENVOY.get(way.path, {}))
    body = b"{}" if way.method == "POST" else None
    got = site.ask(port, way.path, way.method, body, way.headers, way.host)
    assert (got.status, got.headers.get("x-mock", ""), got.code) == (way.status, way.server, way.code), got
    if way.server:
        assert got.seen is not None
        assert got.seen.path == (way.seen or way.path)
    return got


ROUTES = (
    Way("/strip/v1/x?y=1", "a", "/v1/x?y=1"),
    Way("/strip", "a", "/"),
    Way("/stripped", status=404, code="not_found"),
    Way("/add/x", "a", "/api/add/x"),
    Way("/moved/x", "b", "/v9/x"),
    Way("/moved", "b", "/v9/"),
    Way("/fixed/deep", status=410),
    Way("/none", status=204),
    Way("/post", "b", method="POST"),
    Way("/post", status=404, code="not_found"),
    Way("/tier", "b", headers=(("X-Tier", "gold"),)),
    Way("/tier", status=404, code="not_found", headers=(("X-Tier", "Gold"),)),
    Way("/tier", status=404, code="not_found"),
    Way("/v1/chat", "a"),
    Way("/v1//chat", "a"),
    Way("/%76%31/chat", "a"),
    Way("/v1/exact", "b"),
    Way("/v1/exact/not", "a"),
    Way("/V1", status=404, code="not_found"),
    Way("/named", "b", host="h.org"),
    Way("/named", "b", host="H.ORG:8080"),
    Way("/named", "b", host="deep.er.w.org"),
    Way("/named", status=404, code="not_found", host="w.org"),
    Way("/named", status=404, code="not_found", host="xh.org"),
    Way("/v1/../fixed", status=400, code="bad_request"),
    Way("/v1/./x", status=400, code="bad_request"),
    Way("/v1/..", status=400, code="bad_request"),
    Way("/v1/..x/y.", "a"),
    Way("/v1/%00", status=400, code="bad_request"),
    Way("/v1/%2e%2e/x", status=400, code="bad_request"),
    Way("/v1", status=405, method="TRACE", code="method_not_allowed"),
    Way("/v1/reset_prefix_cache", "a"),
    Way("/strip/reset_prefix_cache", status=403, code="admin_path_refused", method="POST"),
    Way("/", status=404, code="not_found"),
)


@pytest.mark.parametrize("way", ROUTES, ids=lambda way: f"{way.method} {way.path[:40]}")
def test_a_request_takes_its_route(site: Site, way: Way) -> None:
    check(site, "routes", way)


QUERIES = (
    Way("/asked?kind=best", "b"),
    Way("/asked?x=1&kind=b", "b"),
    Way("/asked?kind=worst", status=404, code="not_found"),
    Way("/asked?unkind=best", status=404, code="not_found"),
    Way("/asked?kind=b&kind=c", status=400, code="bad_request"),
    Way("/asked?debug=0", "a"),
    Way("/asked?debug=", status=404, code="not_found"),
    Way("/asked?debug=&x=1", status=404, code="not_found"),
    Way("/asked?debug", status=404, code="not_found"),
    Way("/asked?debug=&debug=1", status=400, code="bad_request"),
)


@pytest.mark.parametrize("way", QUERIES, ids=lambda way: way.path)
def test_a_query_decides_where_it_is_looked_at(site: Site, way: Way) -> None:
    check(site, "routes", way)


def test_no_tunnel_is_made(site: Site) -> None:
    got = site.ask("routes", "site.org:80", "CONNECT", host="site.org:80")
    assert (got.status, got.code, got.seen) == (405, "method_not_allowed", None)


@pytest.mark.parametrize("port", ["routes", "shared"])
@pytest.mark.parametrize("hosts", [("site.org", "two.org"), ("two.org", "site.org")])
def test_a_request_names_one_host(site: Site, port: str, hosts: tuple[str, str]) -> None:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    before = len(site.servers["a"].seen)
    status = said(site, port, f"GET /v1 HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
    # On Envoy two hosts are one name, which may be nobody's.
    assert status == (b"404" if (site.target, port) == ("envoy", "shared") else b"400")
    assert len(site.servers["a"].seen) == before


@pytest.mark.parametrize("value", [b"\x00", b"a\x00b", b"a\x00"])
def test_no_value_of_a_header_has_a_nul(site: Site, value: bytes) -> None:
    head = b"GET /v1 HTTP/1.1\r\nHost: site.org\r\nConnection: close\r\n"
    assert said(site, "routes", head + b"X-Other: " + value + b"\r\n\r\n") == b"400"


def said(site: Site, port: str, request: bytes) -> bytes:
    """Send bytes and return the status of the answer."""
    with socket.create_connection(("127.0.0.1", site.ports[port]), 10) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline().split()[1]


def test_a_header_that_another_listener_routes_by_may_come_twice(site: Site) -> None:
    twice = (("X-Second", "1"), ("X-Second", "2"), ("X-Api-Key", "sk-one"))
    check(site, "shared", Way("/", "a", host="one.org", headers=twice))
    decides = Way("/tier", "b", host="two.org", headers=twice[:1])
    check(site, "shared", decides)
    if site.target != "nginx":
        check(site, "shared", decides._replace(server="", status=400, code="bad_request", headers=twice))


def test_a_header_that_decides_comes_once(site: Site) -> None:
    twice = (("X-Tier", "gold"), ("X-Tier", "gold"))
    # HAProxy and Envoy refuse it. NGINX 1.22 compares the first, later NGINX what they make joined.
    way = Way("/tier", "b") if site.target == "nginx" else Way("/tier", status=400, code="bad_request")
    check(site, "routes", way._replace(headers=twice))


@pytest.mark.parametrize("path", [b"/v1/caf\xe9", "/v1/你".encode(), b"/v1/x?q=\xff", b"/v1/\x7f"])
def test_bytes_beyond_ascii_need_escapes(site: Site, path: bytes) -> None:
    before = len(site.servers["a"].seen)
    with socket.create_connection(("127.0.0.1", site.ports["routes"]), 10) as connection:
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: site.org\r\nConnection: close\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"400"
    assert len(site.servers["a"].seen) == before
    assert all(json.loads(line) for line in logged(site))


@pytest.mark.parametrize("host", ["Host: site.org\r\n", ""])
def test_balancers_in_front_may_speak_http_1_0(site: Site, host: str) -> None:
    """As NGINX does that is not told otherwise; old checks name no host."""
    for port, path in (("routes", "/v1"), ("metrics", "/live")):
        with socket.create_connection(("127.0.0.1", site.ports[port]), 10) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n{host}\r\n".encode())
            answer = connection.makefile("rb").read()  # to its end: it does not wait for another request
        assert answer.split()[1] == b"200", answer


def logged(site: Site) -> list[str]:
    """Return the lines of the access log, which are UTF-8 or an error."""
    lines = (site.folder / "log").read_bytes().split(b"\n")[:-1]
    return [line.decode() for line in lines if line.startswith(b"{")]


def test_an_address_is_at_most_32_kib_long(site: Site) -> None:
    length = 66_000 if site.target == "nginx" else 33_000  # whose buffer is twice the listener's headers
    way = Way("/v1/" + "x" * length, status=414, code="uri_too_long")
    if site.target == "envoy":  # for which the address is one of the headers
        way = way._replace(status=431, code="headers_too_large")
    check(site, "routes", way)


def test_a_fixed_answer_is_given_as_written(site: Site) -> None:
    got = site.ask("routes", "/fixed")
    assert (got.body, got.headers["content-type"], got.seen) == (b"gone", "text/html", None)


def test_a_refused_method_is_told_of_the_allowed_ones(site: Site) -> None:
    allowed = site.ask("routes", "/v1", "TRACE").headers.get("allow", "")
    assert {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} == set(allowed.split(", "))
    assert "allow" not in site.ask("routes", "/nowhere").headers


def test_a_body_is_at_most_as_long_as_its_own_listener_says(site: Site) -> None:
    headers = {"X-Api-Key": "sk-one"}
    assert site.ask("shared", "/", "POST", b"x" * 2000, headers, "one.org").status == 200
    assert site.ask("shared", "/b", "POST", b"x" * 2000, host="two.org").code == "request_too_large"


@pytest.mark.parametrize(("length", "status"), [(1024, 200), (1025, 413)])
def test_a_body_is_at_most_as_long_as_the_listener_says(site: Site, length: int, status: int) -> None:
    got = site.ask("routes", "/v1/x", "POST", b"x" * length)
    assert (got.status, got.code) == (status, "" if status == 200 else "request_too_large")


def test_headers_are_at_most_as_long_as_the_listener_says(site: Site) -> None:
    many = tuple((f"X-Long-{number}", "x" * 4000) for number in range(40))
    assert site.ask("routes", "/v1", headers=many[:6]).status == 200
    got = site.ask("routes", "/v1", headers=many[: 40 if site.target == "nginx" else 9])
    assert (got.status, got.code) == (431, "headers_too_large")


def test_nobody_there_is_said_as_json_with_a_time(site: Site) -> None:
    got = site.ask("routes", "/dead")
    assert (got.status, got.code, got.headers.get("retry-after")) == (503, "service_unavailable", "1")


@pytest.mark.parametrize(
    ("token", "more"), [("h2c", {"HTTP2-Settings": "AAMAAABkAAQ"}), ("other/1", {}), ("websockets", {})]
)
def test_a_request_that_is_no_handshake_goes_on_without_an_upgrade(
    site: Site, token: str, more: dict[str, str]
) -> None:
    headers = {"Connection": ", ".join(("Upgrade", *more)), "Upgrade": token, **more}
    got = check(site, "routes", Way("/ws/x", "a", headers=tuple(headers.items())))
    assert got.sent("Upgrade") is None
    assert got.sent("HTTP2-Settings") is None


HANDSHAKE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "X-Api-Key": "sk-ops",
}  # fmt: skip


@pytest.mark.parametrize(
    ("port", "path", "server", "token"),
    [
        ("routes", "/ws/x", "b", "websocket"),
        ("routes", "/v1", "a", None),
        ("exempt", "/v1", "a", None),
        ("talks", "/v1/realtime?model=small", "a", "websocket"),
        ("talks", "/v1/realtime?model=plain", "b", "websocket"),
        ("tunnels", "/v1/realtime?model=open", "b", "websocket"),
        ("tunnels", "/v1/realtime?model=small", "a", None),
        ("tunnels", "/v1/load_lora_adapter?model=run", "a", None),
        ("tunnels", "/run/x", "a", "websocket"),
    ],
)
def test_a_handshake_goes_on_where_its_route_says_so(
    site: Site, port: str, path: str, server: str, token: str | None
) -> None:
    """On another route it is a plain request, which Envoy refuses where one of the listener's takes some."""
    got = site.ask(port, path, headers=HANDSHAKE)
    if site.target == "envoy" and token is None and port != "exempt":
        assert (got.status, got.code, got.seen) == (403, "forbidden", None)
    else:
        assert (got.headers.get("x-mock"), got.sent("Upgrade")) == (server, token)


def test_a_handshake_is_answered_where_nothing_leads_to_a_server(site: Site) -> None:
    paths = {"/said": (410, ""), "/v1/realtime?model=nobody": (404, "model_not_found")}
    asked = {path: site.ask("talks", path, headers=HANDSHAKE) for path in paths}
    assert {path: (got.status, got.code) for path, got in asked.items()} == paths


def test_a_route_for_handshakes_takes_no_other_request(site: Site) -> None:
    ops = (("X-Api-Key", "sk-ops"),)
    way = Way("/v1/chat?model=open", status=404, code="model_not_found", headers=ops)
    check(site, "tunnels", way)
    for path in ("/run/x", ADMIN):
        check(site, "tunnels", way._replace(path=path, code="not_found", method="POST"))


# what servers and clients are told


def test_a_clients_own_id_is_kept_where_it_is_harmless(site: Site) -> None:
    for kept in ("abc.1:/+=-_Z", "x" * 128):
        got = site.ask("routes", "/v1", headers={"X-Request-Id": kept})
        assert (got.headers["x-request-id"], got.sent("X-Request-Id")) == (kept, kept)
    for odd in ("", "two words", '"quoted"', "x" * 129):
        got = site.ask("routes", "/v1", headers={"X-Request-Id": odd})
        assert got.headers["x-request-id"] == got.sent("X-Request-Id")
        assert re.fullmatch(r"[0-9a-f-]{32,36}", got.headers["x-request-id"])


def test_what_a_client_claims_of_itself_is_not_believed(site: Site) -> None:
    claims = {
        "X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9", "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.org", "X-Forwarded-Prefix": "/evil", "Forwarded": "for=203.0.113.9",
    }  # fmt: skip
    got = site.ask("routes", "/v1", headers=claims)
    assert got.sent("X-Forwarded-For") == got.sent("X-Real-IP") == "127.0.0.1"
    assert (got.sent("X-Forwarded-Proto"), got.sent("X-Forwarded-Host")) == ("http", "site.org")
    assert got.sent("Forwarded") is None
    assert got.sent("X-Forwarded-Prefix") is None


@pytest.mark.parametrize(
    ("claims", "name", "seen"),
    [
        ({"X-Forwarded-For": "203.0.113.9"}, "X-Real-IP", "203.0.113.9"),
        ({"X-Forwarded-For": "203.0.113.9, 127.0.0.2"}, "X-Real-IP", "203.0.113.9"),
        ({"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}, "X-Real-IP", "203.0.113.9"),
        ({"X-Forwarded-For": "198.51.100.1,2001:db8::1234"}, "X-Real-IP", "2001:db8::1234"),
        ({"X-Forwarded-For": "203.0.113.9:1234"}, "X-Real-IP", "203.0.113.9"),
        ({"X-Forwarded-For": "203.0.113.9, 127.0.0.2:99"}, "X-Real-IP", "203.0.113.9"),
        ({"X-Forwarded-For": "[2001:db8::1234]:443"}, "X-Real-IP", "2001:db8::1234"),
        ({}, "X-Real-IP", "127.0.0.1"),
        ({"X-Forwarded-Proto": "https"}, "X-Forwarded-Proto", "https"),
        ({"X-Forwarded-Proto": "gopher"}, "X-Forwarded-Proto", "http"),
        ({"X-Forwarded-Prefix": "/outer"}, "X-Forwarded-Prefix", "/outer"),
        ({"X-Forwarded-For": "203.0.113.9, unknown"}, "X-Forwarded-Proto", "http"),
        ({}, "X-Forwarded-Proto", "http"),
        ({"X-Forwarded-Host": "pub.org:8443"}, "X-Forwarded-Host", "pub.org:8443"),
        ({"X-Forwarded-Host": "a b/c"}, "X-Forwarded-Host", "site.org"),
        ({}, "X-Forwarded-Host", "site.org"),
        ((("X-Forwarded-Host", "one.org"), ("X-Forwarded-Host", "two.org")), "X-Forwarded-Host", "site.org"),
    ],
)
def test_what_a_trusted_proxy_says_is_believed(
    site: Site, claims: dict[str, str] | tuple[tuple[str, str], ...], name: str, seen: str
) -> None:
    if site.target == "nginx" and len(claims) > 1:  # 1.22 knows of the first alone
        seen = claims[0][1] if isinstance(claims, tuple) else seen
    if site.target == "envoy" and re.search(r"[.\]]\d*:\d+$", dict(claims).get("X-Forwarded-For", "")):
        seen = "0.0.0.0"  # it reads no address with a port, and so names nobody
    assert site.ask("trusted", "/x", headers=claims).sent(name) == seen


def test_a_server_is_told_which_prefix_was_taken_off(site: Site) -> None:
    assert site.ask("routes", "/strip/x").sent("X-Forwarded-Prefix") == "/strip"
    outer = site.ask("trusted", "/s/x", headers={"X-Forwarded-Prefix": "/outer"})
    assert outer.sent("X-Forwarded-Prefix") == "/outer/s"
    assert site.ask("routes", "/strip/x").headers["location"] == "/strip/there"
    assert site.ask("routes", "/v1/x").headers["location"] == "/there"


@pytest.mark.parametrize("path", ["/internal", "/each"])
def test_a_redirect_to_the_name_that_a_server_knows_leads_back_below_the_prefix(
    site: Site, path: str
) -> None:
    server = site.servers["b" if path == "/internal" else "spare"]
    host = "inference.internal" if path == "/internal" else f"localhost:{server.port}"
    for name, leads in ((host, f"{path}/there"), ("elsewhere.org", "http://elsewhere.org/there")):
        server.headers["Location"] = f"http://{name}/there"
        got = site.ask("routes", f"{path}/x")
        del server.headers["Location"]
        assert got.sent("Host") == host
        assert got.headers["location"] == leads


def test_a_proxy_that_buffers_is_told_not_to(site: Site) -> None:
    assert site.ask("trusted", "/x").headers.get("x-accel-buffering") == "no"
    assert "x-accel-buffering" not in site.ask("routes", "/v1").headers


def test_a_pool_sets_and_removes_headers(site: Site) -> None:
    got = site.ask("routes", "/v1", headers={"X-Set": "mine", "X-Debug": "1"})
    assert (got.sent("X-Set"), got.sent("X-Debug"), got.sent("Host")) == ("a", None, "site.org")
    assert got.headers["x-level"] == "pool"
    assert "x-powered-by" not in got.headers
    assert site.ask("routes", "/v1/exact").sent("Host") == "inference.internal"
    assert site.ask("routes", "/backend").sent("Host") == f"localhost:{site.servers['spare'].port}"


# listeners of one address


SHARED = (
    Way("/", status=401, host="one.org", code="invalid_api_key"),
    Way("/", "a", host="one.org", headers=(("Authorization", "Bearer sk-one"),)),
    Way("/", "a", host="one.org.", headers=(("X-Api-Key", "sk-one"),)),
    Way("/", status=403, host="one.org", headers=(("Authorization", "Bearer sk-two"),), code="forbidden"),
    Way("/b", "b", host="two.org"),
    Way("/a", "a", host="TWO.org:1234"),
    Way("/", status=404, host="two.org", code="not_found"),
    Way("/b", "b", host="y.two.org"),
    Way("/b", status=403, host="y.x.two.org", code="address_not_allowed"),
    Way("/a", status=404, host="three.org", code="not_found"),
)


@pytest.mark.parametrize("way", SHARED, ids=lambda way: f"{way.host}{way.path}-{way.status}")
def test_a_listener_holds_for_its_own_hosts_alone(site: Site, way: Way) -> None:
    check(site, "shared", way)


# keys, addresses, limits


KEYED = (
    Way("/", status=401, code="invalid_api_key"),
    Way("/", status=401, code="invalid_api_key", headers=(("Authorization", "Bearer sk-oneX"),)),
    Way("/", status=401, code="invalid_api_key", headers=(("Authorization", "Basic sk-one"),)),
    Way("/", "a", headers=(("Authorization", "Bearer sk-one"),)),
    Way("/", "a", headers=(("X-Api-Key", "sk-one"),)),
    Way("/", status=403, code="forbidden", headers=(("X-Api-Key", "sk-two"),)),
    Way("/b", "b", headers=(("X-Api-Key", "sk-two"),)),
)


@pytest.mark.parametrize("way", KEYED, ids=lambda way: f"{way.path}-{way.status}-{way.headers}")
def test_a_key_opens_what_its_client_may_use(site: Site, way: Way) -> None:
    got = check(site, "keyed", way)
    if way.server:
        assert (got.sent("Authorization"), got.sent("X-Api-Key")) == ("Bearer engine-key", None)
    if way.status == 401:
        assert got.headers["www-authenticate"] == "Bearer"


def test_a_client_keeps_to_its_pools_where_requests_are_shared_out(site: Site) -> None:
    """The pool that was drawn counts, not the other."""
    asked = [site.ask("shared_out", "/", headers={"X-Api-Key": "sk-half"}) for _ in range(32)]
    got = {(one.status, one.headers.get("x-mock", ""), one.code) for one in asked}
    assert got == {(200, "a", ""), (403, "", "forbidden")}
    barred = [site.ask("shared_out", "/", headers={"X-Api-Key": "sk-two"}) for _ in range(8)]
    assert {(one.status, one.code, one.seen) for one in barred} == {(403, "forbidden", None)}


ADMIN = "/run/v1/load_lora_adapter"
RUN = (
    Way(ADMIN, status=401, code="invalid_api_key", method="POST"),
    Way(ADMIN, status=403, code="admin_path_refused", method="POST", headers=(("X-Api-Key", "sk-one"),)),
    Way(ADMIN, "a", ADMIN.removeprefix("/run"), method="POST", headers=(("X-Api-Key", "sk-ops"),)),
    Way("/run/v1/chat", "a", "/v1/chat", method="POST", headers=(("X-Api-Key", "sk-one"),)),
    Way("/run/v1/chat", status=403, code="forbidden", method="POST", headers=(("X-Api-Key", "sk-two"),)),
)


def test_who_runs_an_engine_does_not_run_that_of_another_share(site: Site) -> None:
    asked = [site.ask("shared_out", ADMIN, "POST", b"{}", {"X-Api-Key": "sk-ops"}) for _ in range(32)]
    got = {(one.status, one.headers.get("x-mock", ""), one.code) for one in asked}
    assert got == {(200, "a", ""), (403, "", "admin_path_refused")}


@pytest.mark.parametrize("way", RUN, ids=lambda way: f"{way.path} {way.headers} {way.status}")
def test_who_may_run_an_engine(site: Site, way: Way) -> None:
    check(site, "run", way)


@pytest.mark.parametrize(
    ("key", "model", "server", "code"),
    [("two", "big-7b", "b", ""), ("two", "small", "", "forbidden"), ("one", "small", "a", ""),
     ("none", "small", "", "invalid_api_key")],
)  # fmt: skip
def test_a_client_keeps_to_its_pools_where_bodies_decide(
    site: Site, key: str, model: str, server: str, code: str
) -> None:
    body, headers = json.dumps({"model": model}).encode(), {"X-Api-Key": f"sk-{key}"}
    got = site.ask("run", "/v1/chat/completions", "POST", body, headers)
    assert (got.headers.get("x-mock", ""), got.code) == (server, code)


ASKED = (
    (200, "a", 200, ""), (202, "a", 200, ""), (401, "", 401, "invalid_api_key"), (403, "", 403, "forbidden"),
    (500, "", 500, "internal_error"), (404, "", 500, "internal_error"),
)  # fmt: skip


@pytest.mark.parametrize(("said", "server", "status", "code"), ASKED)
def test_a_service_says_who_comes_in(site: Site, said: int, server: str, status: int, code: str) -> None:
    if site.target == "haproxy":
        return  # which asks nobody
    door = site.servers["door"]
    door.status, door.pieces = said, 0
    before = len(door.seen)
    headers = {"Authorization": "Bearer x", "X-Team": "t", "X-Own": "o", "X-Request-Id": "asked-1"}
    got = site.ask("asking", "/v1/x?y=1", "POST", b"question", headers)
    assert (got.status, got.headers.get("x-mock", "") * (status == 200), got.code) == (status, server, code)
    [asked] = door.seen[before:]
    assert (asked.method, asked.path, asked.body) == ("GET", "/check?by=lb", b"")
    assert asked.headers.items() >= {
        "authorization": "Bearer x", "x-team": "t", "x-original-method": "POST",
        "x-original-uri": "/v1/x?y=1", "x-real-ip": "127.0.0.1", "x-request-id": "asked-1",
    }.items()  # fmt: skip
    assert "x-own" not in asked.headers
    if server:
        seen = site.servers["a"].seen[-1]
        assert (seen.body, seen.headers.get("authorization")) == (b"question", None)


@pytest.mark.parametrize(("peer", "address"), [("127.0.0.1", "203.0.113.7"), ("127.0.0.9", "127.0.0.9")])
def test_who_a_proxy_says_it_speaks_for_is_believed_of_trusted_ones(
    site: Site, peer: str, address: str
) -> None:
    # HAProxy expects the PROXY protocol of trusted ones alone.
    said = b"PROXY TCP4 203.0.113.7 203.0.113.8 1111 80\r\n"
    head = said if peer == "127.0.0.1" or site.target != "haproxy" else b""
    request = b"GET /v1 HTTP/1.1\r\nHost: site.org\r\nConnection: close\r\nX-Forwarded-Proto: https\r\n"
    request += b"X-Forwarded-Prefix: /x\r\n\r\n"
    place = ("127.0.0.1", site.ports["proxied"])
    with socket.create_connection(place, timeout=10, source_address=(peer, 0)) as connection:
        connection.sendall(head + request)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200"), answer
    seen = site.servers["a"].seen[-1].headers
    assert (seen["x-real-ip"], seen["x-forwarded-for"]) == (address, address)
    # What it passes on, its client wrote.
    assert (seen["x-forwarded-proto"], seen.get("x-forwarded-prefix")) == ("http", None)


def test_addresses_that_are_not_allowed_are_refused(site: Site) -> None:
    check(site, "closed", Way("/", status=403, code="address_not_allowed"))
    assert site.ask("closed", "/lb/live").status == 200


def test_an_exempt_address_needs_no_key_and_a_key_still_tells_who_asks(site: Site) -> None:
    check(site, "exempt", Way("/", "a"))
    check(site, "exempt", Way("/", "a", headers=(("Authorization", "Bearer sk-one"),)))


@pytest.mark.parametrize(
    ("chain", "status"),
    [
        ("127.0.0.9", 200),
        ("203.0.113.9, 127.0.0.9, 127.0.0.8", 401),
        ("127.0.0.9, 203.0.113.9", 401),
        ("127.0.0.9, 2001:db8::1", 401),
        ("127.0.0.9, unknown", 401),
        ("127.0.0.9, unknown, 127.0.0.8", 401),
        ("127.0.0.9, 203.0.113.9:x", 401),
        ("127.0.0.9, 999.1.1.1", 401),
        ("127.0.0.9, 1:2:3", 401),
        ("127.0.0.9, 12345::1", 401),
        ("unknown", 401),
        ("127.0.0.9,", 401),
    ],
)
def test_a_client_that_no_proxy_can_name_is_in_no_network(site: Site, chain: str, status: int) -> None:
    """Whoever stands where the last trusted proxy saw no address is not taken for that proxy."""
    assert site.ask("behind", "/", headers={"X-Forwarded-For": chain}).status == status


def test_figures_are_told_at_their_own_address_alone(site: Site) -> None:
    told = site.ask("metrics", "/metrics")
    assert told.status == 200
    assert b"connections" in told.body or b"cx" in told.body
    assert site.ask("metrics", "/elsewhere").status == 404
    assert site.ask("routes", "/metrics").status == 404


def test_a_limit_holds_for_its_listener_alone(site: Site) -> None:
    got = [site.ask("limited", "/v1") for _ in range(4)]
    assert [one.status for one in got] == [200, 200, 429, 429]
    assert (got[2].code, got[2].headers["retry-after"]) == ("rate_limit_exceeded", "1")
    assert site.ask("limited", "/lb/live").status == 200
    assert [site.ask("routes", "/v1").status for _ in range(4)] == [200] * 4


def test_who_guesses_keys_is_limited(site: Site) -> None:
    keys = ("wrong", "wrong-too", "sk-one", "wrong")
    got = [site.ask("guessed", "/v1", headers={"X-Api-Key": key}).status for key in keys]
    assert got == [401, 401, 429, 429]


def test_requests_that_are_shared_out_keep_path_and_host(site: Site) -> None:
    for server in ("b", "spare"):
        site.servers[server].seen.clear()
    asked = [site.ask("routes", "/either/v1/x?y=%2F") for _ in range(32)]
    assert {one.status for one in asked} == {200}
    found = {name: site.servers[name].seen for name in ("b", "spare")}
    assert all(found.values()), "both get some"
    told = {(one.path, one.headers["host"]) for seen in found.values() for one in seen}
    assert told == {("/v1/x?y=%2F", "inference.internal")}


@pytest.mark.parametrize(
    "path",
    ["/x/../metrics%zz", "/metrics%zz", "/metrics%", "/metrics%00", "/metrics/../stats",
     "/metrics/quitquitquit", "/metrics/..%2fquitquitquit", "/metrics%2f..%2fquitquitquit", "//quitquitquit",
     "/metrics;/../stats", "/live/../quitquitquit", "/metrics%3fformat=json", "/metrics%23"],
)  # fmt: skip
def test_no_path_leads_from_the_figures_to_other_pages(site: Site, path: str) -> None:
    for method in ("GET", "POST"):
        assert site.ask("metrics", path, method, b"" if method == "POST" else None).status in {400, 404, 405}
    assert site.ask("metrics", "/metrics").status == 200


# pages of other origins


def test_a_page_of_an_allowed_origin_is_told_so(site: Site) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-own"}
    got = site.ask("cors", "/", "OPTIONS", headers={"Origin": "https://chat.org", **asks})
    assert (got.status, got.seen) == (200 if site.target == "envoy" else 204, None)
    assert got.headers["access-control-allow-origin"] == "https://chat.org"
    assert got.headers["access-control-allow-methods"].replace(" ", "").split(",") == ["GET", "POST"]
    assert got.headers["access-control-allow-headers"].lower().replace(" ", "") == "authorization,x-own"
    assert got.headers["access-control-allow-credentials"] == "true"
    assert got.headers["access-control-max-age"] == "600"
    key = {"Authorization": "Bearer sk-one"}
    answer = site.ask("cors", "/", headers={"Origin": "https://chat.org", **key})
    assert answer.headers["access-control-allow-origin"] == "https://chat.org"
    exposed = set(answer.headers["access-control-expose-headers"].lower().replace(" ", "").split(","))
    assert {"x-usage", "x-request-id", "retry-after"} <= exposed
    assert (
        "access-control-allow-origin"
        not in site.ask("cors", "/", headers={"Origin": "https://evil.org", **key}).headers
    )


def test_the_closest_says_which_header_a_client_gets(site: Site) -> None:
    key = {"Authorization": "Bearer sk-one"}
    levels = {path: site.ask("cors", path, headers=key).headers for path in ("/", "/b")}
    assert {path: found["x-level"] for path, found in levels.items()} == {"/": "pool", "/b": "route"}
    assert {found["x-here"] for found in levels.values()} == {"yes"}
    refused = site.ask("cors", "/").headers
    # Envoy has taken the route by then.
    assert refused["x-level"] == ("pool" if site.target == "envoy" else "listener")
    assert refused["x-here"] == "yes"


# bodies


JSON = (("Content-Type", "application/json"),)
FORM = (("Content-Type", "application/x-www-form-urlencoded"),)


class Sent(NamedTuple):
    """A body, the server that gets it, and else the answer."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...]
    server: str
    status: int
    code: str


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


BODIES = (
    Sent("/v1/chat/completions", b'{"model": "big-7b"}', JSON, "b", 200, ""),
    Sent("/v1/chat/completions", b'{"x": [{"model": "tiny"}], "model" : "small"}', JSON, "a", 200, ""),
    Sent("/v1/chat/completions", b'{"model": "tiny"}', JSON, "a", 200, ""),
    Sent("/v1/chat/completions", b'{"model": "big-\\u6a21\\u578b"}', JSON, "b", 200, ""),
    Sent("/v1/chat/completions", b'{"model": "tin\\\\u0079"}', JSON, "", 404, "model_not_found"),
    Sent("/v1/chat/completions", b'{"model": "tiny"}', (("Content-Type", "application/grpc"),), "a", 200, ""),
    Sent("/v1/chat/completions", b'\xef\xbb\xbf{"model": "tiny"}', JSON, "a", 200, ""),
    Sent("/v1/chat/completions", b'{"model": "other"}', JSON, "", 404, "model_not_found"),
    Sent("/v1/chat/completions", b"{}", JSON, "", 404, "not_found"),
    Sent("/v1/chat/completions", b'{"model": "tiny"', JSON, "", 400, "invalid_json"),
    Sent("/v1/chat/completions", b'{"model": "tiny"}', (*JSON, ("Content-Encoding", "gzip")), "", 415,
     "unsupported_content_encoding"),
    Sent("/v1/chat/completions", b'{"x": "' + b"x" * 5000 + b'", "model": "tiny"}', JSON, "", 413,
     "model_not_readable"),
    Sent("/v1/chat/completions", b'{"model": "tiny", "x": ' + deep(60) + b"}", JSON, "a", 200, ""),
    Sent("/v1/chat/completions", b'{"model": "tiny", "x": ' + deep(2000) + b"}", JSON, "", 413,
     "model_not_readable"),
    Sent("/v1/audio/transcriptions", b"model=tiny&x=1", FORM, "a", 200, ""),
    Sent("/v1/audio/transcriptions", b"model=tiny&model=big-1", FORM, "", 400, "invalid_form"),
    Sent("/form", b"x=1&debug=0", FORM, "a", 200, ""),
    Sent("/form", b"x=1&debug=", FORM, "", 404, "not_found"),
    Sent("/form", b"debug&x=1", FORM, "", 404, "not_found"),
    Sent("/any", b'{"model": ""}', JSON, "", 404, "not_found"),
    Sent("/any", b'{"x": 1}', JSON, "", 404, "not_found"),
    Sent("/any", b"model=", FORM, "", 404, "not_found"),
    Sent("/any?model=", b"", (), "", 404, "not_found"),
    Sent("/v1/x?model=tiny", b"", (), "a", 200, ""),
    Sent("/v1/models/big-3", b"", (), "b", 200, ""),
    Sent("/v1/responses/r1", b"", (), "", 404, "object_of_a_server"),
    Sent("/size", b'{"x":"' + b"x" * 93 + b'"}', JSON, "b", 200, ""),
    Sent("/size", b'{"x":"' + b"x" * 92 + b'"}', JSON, "a", 200, ""),
    Sent("/size", b'{"x":"' + b"x" * 42 + b'"}', JSON, "a", 200, ""),
    Sent("/size", b'{"x":"' + b"x" * 41 + b'"}', JSON, "b", 200, ""),
    Sent("/many", b'{"max_tokens": 11}', JSON, "b", 200, ""),
    Sent("/many", b'{"max_tokens": 10}', JSON, "a", 200, ""),
    Sent("/many", b'{"max_completion_tokens": 11}', JSON, "b", 200, ""),
    Sent("/many", b"{}", JSON, "a", 200, ""),
)  # fmt: skip


def test_escapes_that_follow_each_other(site: Site) -> None:
    got = site.ask("bodies", "/v1/chat/completions", "POST", b'{"model": "\\u0074\\u0069n\\u0079"}', JSON)
    if site.target == "nginx":  # it compares what stands there
        assert (got.status, got.code) == (400, "odd_spelling")
    else:
        assert (got.status, got.headers["x-mock"]) == (200, "a")


@pytest.mark.parametrize("sent", BODIES, ids=lambda one: f"{one.path} {one.body[:30]!r} {one.code}")
def test_a_body_decides(site: Site, sent: Sent) -> None:
    got = site.ask("bodies", sent.path, "POST", sent.body, sent.headers)
    assert (got.status, got.headers.get("x-mock", ""), got.code) == (sent.status, sent.server, sent.code), got
    if got.seen is not None:
        assert got.seen.body == sent.body


@pytest.mark.parametrize(
    ("path", "code"),
    [("/v1/responses/resp_1", "object_of_a_server"),
     ("/v1/responses/resp_1/input_items?limit=2", "object_of_a_server"),
     ("/v1/responses", "not_found"), ("/v1/files", "object_of_a_server"), ("/v1/filesystem", "not_found"),
     ("/v1/agents/sessions/s_1/events", "object_of_a_server"),
     ("/v2/batches/b_1:cancel", "object_of_a_server"),
     ("/v1//chatkit/threads", "object_of_a_server"), ("/v1/chat/completions", "not_found")],
)  # fmt: skip
def test_what_one_server_made_is_told_from_what_is_nowhere(site: Site, path: str, code: str) -> None:
    got = site.ask("bodies", path)
    assert (got.status, got.code) == (404, code)
    named = site.ask("bodies", path, "POST", b'{"model": "nobody"}', JSON)
    assert (named.status, named.code) == (404, "model_not_found")


def test_a_model_in_the_path_decides_and_is_taken_off(site: Site) -> None:
    for model, server in (("small", "a"), ("big-7b", "b")):
        got = site.ask("bodies", f"/azure/{model}/chat?v=1", "POST", b"{}", JSON)
        assert got.headers.get("x-mock") == server, got
        assert got.seen is not None
        assert (got.seen.path, got.sent("X-Forwarded-Prefix")) == ("/v1/chat?v=1", f"/azure/{model}")
    assert site.ask("bodies", "/azure/other/chat", "POST", b"{}", JSON).code == "model_not_found"


def test_a_field_of_a_form_decides_by_its_whole_name(site: Site) -> None:
    for name, server in (("kind-of", "b"), ("kind_of", "")):
        got = site.ask("bodies", "/form", "POST", f"{name}=best".encode(), FORM)
        assert got.headers.get("x-mock", "") == server


@pytest.mark.parametrize(("path", "status"), [("/v1", 401), ("/nowhere", 404)])
def test_a_page_may_read_why_its_request_was_refused(site: Site, path: str, status: int) -> None:
    """Envoy says nothing to browsers where no route leads."""
    asks = {"Origin": "https://chat.org", "Access-Control-Request-Method": "POST"}
    known = {"Authorization": "Bearer sk-one"} if status == 404 else {}
    told = "https://chat.org" if site.target != "envoy" or status == 401 else None
    preflight = site.ask("narrow", path, "OPTIONS", headers=asks)
    refused = site.ask("narrow", path, headers={"Origin": "https://chat.org", **known})
    assert refused.status == status
    assert [one.headers.get("access-control-allow-origin") for one in (preflight, refused)] == [told, told]


# the log


def test_what_is_long_spoils_no_line(site: Site) -> None:
    path = "/v1/" + '"' * 16_000
    site.ask("routes", path, headers=(("X-Tenant", '"\\' * 4_000), ("X-Request-Id", "long-1")))
    eventually(lambda: site.lines("long-"), 20, "the line")
    (line,) = (json.loads(line) for line in logged(site) if "long-1" in line)
    assert line["status"] in {200, 431}
    assert line["path"].startswith('/v1/""""' if site.target != "envoy" else "/v1/%22%22")


def test_what_is_no_text_spoils_no_line(site: Site) -> None:
    """As much is logged as is UTF-8."""
    for number, value in enumerate(("caf\xe9", 'a\x01"', "你".encode().decode("latin-1"), "\xed\xa0\x80")):
        site.ask("routes", "/v1", headers=(("X-Tenant", value), ("X-Request-Id", f"odd-{number}")))
    lines = 4 if site.target != "envoy" else 3  # which refuses control characters
    eventually(lambda: len(site.lines("odd-")) == lines, 20, "the lines")
    assert all(json.loads(line) for line in logged(site))
    if site.target != "envoy":
        found = {line["request_id"]: line["tenant"] for line in site.lines("odd-")}
        assert found == {"odd-0": "caf", "odd-1": 'a\x01"', "odd-2": "你", "odd-3": ""}


def test_a_line_of_the_log_says_what_was_asked_for(site: Site) -> None:
    body = b'{"model": "tiny", "max_tokens": 7}'
    headers = (*JSON, ("X-Tenant", 'a "b"'), ("X-Request-Id", "logged-1"))
    assert site.ask("bodies", "/v1/chat/completions?key=secret", "POST", body, headers).status == 200
    assert site.ask("routes", "/fixed", headers={"X-Request-Id": "logged-2"}).status == 410
    eventually(lambda: len(site.lines("logged-")) == 2, 20, "two lines")
    # Two workers write them in either order.
    served, answered = sorted(site.lines("logged-"), key=lambda line: line["request_id"])
    assert served.items() >= {
        "request_id": "logged-1", "method": "POST", "path": "/v1/chat/completions", "listener": "bodies",
        "pool": "a", "status": 200,
    }.items()  # fmt: skip
    assert (answered["path"], answered["status"]) == ("/fixed", 410)
    assert served["server"]
    assert served["bytes_sent"] > 0
    assert 0 <= served["duration_s"] < 60
    assert "secret" not in json.dumps(served)
    if site.target == "envoy":  # whose lines say the rest in words of their own
        assert (served["client"], served["attempts"]) == (None, 1)
        return
    assert served.items() >= {
        "client": "", "retries": 0, "size": len(body), "most": 7, "asked": "tiny", "from": "127.0.0.1",
        "tenant": 'a "b"', "place": "here",
    }.items()  # fmt: skip
    assert 0 <= served["upstream_first_byte_s"] <= served["duration_s"]
    assert answered.items() >= {
        "pool": "", "server": "", "upstream_first_byte_s": None, "upstream_connect_s": None, "size": None,
        "tenant": "",
    }.items()  # fmt: skip
