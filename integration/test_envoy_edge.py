"""Envoy's edge with rendered files: keys, limits, hosts, routes, TLS, errors."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from integration.envoy_site import MockServer, mocks, pool, running
from integration.waiting import eventually
from lbgen.checker.certificate import throwaway_bundle
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("envoy_version")


@pytest.fixture
def servers() -> Iterator[list[MockServer]]:
    with mocks(3) as found:
        yield found


def edge(servers: list[MockServer], listener: dict[str, Any], **more: Any) -> dict[str, Any]:
    pools = {one.name: pool([one]) for one in servers}
    return {"pools": pools, "listeners": {"public": listener}, **more}


CLIENTS = {"team-a": {"key": "env:A"}, "batch": {"keys": ["env:B"], "pools": ["s1"]}}
BY_PATH = [{"path": "/one", "pool": "s0"}, {"path": "/two", "pool": "s1"}]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_keys(servers: list[MockServer], tmp_path: Path) -> None:
    fleet = edge(servers[:2], {"auth": {"clients": "all"}, "routes": BY_PATH}, clients=CLIENTS)
    with running(fleet, tmp_path) as site:
        for headers in ({}, bearer("sk-wrong"), {"authorization": "sk-a"}, {"x-api-key": "x"}):
            answer = site.ask("/one/x", headers=headers)
            assert (answer.status, answer.code) == (401, "invalid_api_key"), headers
        assert site.ask("/one/x", headers=bearer("sk-a")).status == 200
        assert site.ask("/one/x", headers={"x-api-key": "sk-a"}).status == 200
        assert site.ask("/two/x", headers=bearer("sk-b")).status == 200
        barred = site.ask("/one/x", headers=bearer("sk-b"))
        assert (barred.status, barred.code) == (403, "forbidden")
        assert not {"authorization", "x-api-key"} & servers[0].seen[-1].headers.keys()
        assert site.ask("/lb/live").status == 200
        for file in tmp_path.rglob("*.yaml"):
            assert "sk-a" not in file.read_text()
        eventually(lambda: any(line["client"] == "team-a" for line in site.lines()), 15, "the client's name")


def test_what_servers_see_in_place_of_a_key(servers: list[MockServer], tmp_path: Path) -> None:
    auth = {"clients": "all", "upstream": {"set": "env:ENGINE"}, "except": ["127.0.0.0/8"]}
    fleet = edge(servers[:1], {"auth": auth}, clients={"team-a": {"key": "env:A"}})
    with running(fleet, tmp_path) as site:
        assert site.ask("/x", headers=bearer("sk-a")).status == 200
        assert servers[0].seen[-1].headers["authorization"] == "Bearer sk-engine"
        assert site.ask("/x").status == 200, "an address that needs no key"


def test_a_service_that_cannot_be_asked_lets_nobody_in(servers: list[MockServer], tmp_path: Path) -> None:
    """A script that fails would let the request through."""
    door, server = servers[0], servers[1]
    external = {"url": f"http://127.0.0.1:{door.port}/check"}
    with running(edge([server], {"auth": {"external": external}}), tmp_path) as site:
        assert site.ask("/x").status == 200
        (table,) = tmp_path.rglob("clusters.yaml")
        found = yaml.safe_load(table.read_text())
        kept = [one for one in found["resources"] if one["name"] != "lb:auth:public"]
        assert len(kept) == len(found["resources"]) - 1
        fresh = table.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({**found, "resources": kept}))
        fresh.replace(table)
        before = len(door.seen)
        eventually(lambda: site.ask("/x").status == 500, 15, "a refusal")
        asked, served = len(door.seen), len(server.seen)
        assert [site.ask("/x").status for _ in range(5)] == [500] * 5
        assert (len(door.seen), len(server.seen)) == (asked, served)
        # One that was asked about may be lost with the cluster.
        assert served - 1 <= asked - before, "who was served had been let in"


def test_limits(servers: list[MockServer], tmp_path: Path) -> None:
    listener = {"auth": {"clients": "all"}, "limits": [{"rate": "6/m", "burst": 2, "per": "client"}]}
    clients = {"team-a": {"key": "env:A"}, "batch": {"key": "env:B", "rate": "1/h"}}
    with running(edge(servers[:1], listener, clients=clients), tmp_path) as site:
        found = [site.ask("/x", headers=bearer("sk-a")) for _ in range(5)]
        assert [one.status for one in found] == [200, 200, 200, 429, 429]
        assert (found[4].code, found[4].headers["retry-after"]) == ("rate_limit_exceeded", "1")
        assert [site.ask("/x", headers=bearer("sk-b")).status for _ in range(2)] == [200, 429]
        assert site.ask("/lb/live").status == 200


@pytest.mark.parametrize("per", ["ip", "total"])
def test_limits_of_everybody(servers: list[MockServer], tmp_path: Path, per: str) -> None:
    with running(edge(servers[:1], {"limits": [{"rate": "1/h", "burst": 1, "per": per}]}), tmp_path) as site:
        assert [site.ask("/x").status for _ in range(3)] == [200, 200, 429]


def test_routes(servers: list[MockServer], tmp_path: Path) -> None:
    routes = [
        {
            "path": "/gpt",
            "strip_prefix": True,
            "add_prefix": "/v1",
            "pool": "s0",
            "headers": {"set": {"X-A": "50%"}},
        },
        {"path_exact": "/gpt/exact", "respond": {"status": 418, "json": {"a": None}}},
        {"header": {"X-Tier": "batch"}, "pool": "s1"},
        {"method": ["DELETE"], "pool": "s2"},
        {"host": ["*.example.org"], "pool": "s2"},
    ]
    with running(edge(servers, {"routes": routes}), tmp_path) as site:
        assert site.ask("/gpt/chat?q=1").headers["x-mock"] == "s0"
        assert servers[0].seen[-1].path == "/v1/chat?q=1"
        assert servers[0].seen[-1].headers["x-a"] == "50%"
        assert site.ask("/%67pt//chat").headers["x-mock"] == "s0"
        answer = site.ask("/gpt/exact")
        assert (answer.status, answer.body, answer.headers["content-type"]) == (
            418,
            b'{"a":null}',
            "application/json",
        )
        missing = site.ask("/gptx")
        assert (missing.status, missing.code) == (404, "not_found")
        assert site.ask("/any", headers={"x-tier": "batch"}).headers["x-mock"] == "s1"
        assert site.ask("/any", "DELETE").headers["x-mock"] == "s2"
        assert site.ask("/any", headers={"host": "a.EXAMPLE.org:99"}).headers["x-mock"] == "s2"
        assert site.ask("/any", "TRACE").status == 405


def test_models(servers: list[MockServer], tmp_path: Path) -> None:
    routes = [
        {"model": "llama-70b*", "pool": "s0"},
        {"model": "qwen", "pool": "s1"},
        {"path": "/plain", "pool": "s2"},
        {"path": "/long", "prompt_over": "1KiB", "pool": "s1"},
        {"path": "/long", "max_tokens_over": 100, "pool": "s2"},
        {"path": "/long", "pool": "s0"},
    ]
    with running(edge(servers, {"routes": routes, "inspect": {"body": "64KiB"}}), tmp_path) as site:
        path = "/v1/chat/completions"
        big = {"messages": [{"role": "user", "content": 'x "model": "qwen" ' * 200}]}
        assert site.post(path, {"model": "llama-70b-fp8"}).headers["x-mock"] == "s0"
        assert site.post(path, {**big, "model": "qwen"}).headers["x-mock"] == "s1"
        assert site.post(path, b'{"model": "q\\u0077en"}').headers["x-mock"] == "s1"
        unknown = site.post(path, {"model": "gpt"})
        assert (unknown.status, unknown.code) == (404, "model_not_found")
        assert site.post(path, b"{ not json").code == "invalid_json"
        assert site.post(path, {"model": "qwen", "x": "y" * 70_000}).code == "model_not_readable"
        assert site.post(path, {"model": "qwen"}, {"content-encoding": "gzip"}).status == 415
        assert site.post(path, {"model": "qwen"}, {"content-encoding": "identity"}).headers["x-mock"] == "s1"
        assert site.post("/plain/x", b"{ not json").headers["x-mock"] == "s2"
        assert site.post("/long/x", big).headers["x-mock"] == "s1"
        assert site.post("/long/x", {"max_tokens": 101}).headers["x-mock"] == "s2"
        assert site.post("/long/x", {"max_tokens": 100}).headers["x-mock"] == "s0"
        assert servers[1].seen[0].body.count(b"qwen") == 201, "the body as it was"


def test_what_has_no_body_goes_by_no_model(servers: list[MockServer], tmp_path: Path) -> None:
    listener = {"routes": [{"model": "m", "pool": "s0"}, {"pool": "s1"}]}
    with running(edge(servers[:2], listener), tmp_path) as site:
        first = site.ask("/v1/files")
        assert first.headers.get("x-mock") == "s1", first
        assert "transfer-encoding" not in servers[1].seen[0].headers
        assert site.ask("/v1/x", "DELETE").headers["x-mock"] == "s1"
        pieces = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        pieces.request("POST", "/v1/x", iter([b'{"model":', b'"m"}']), encode_chunked=True)
        assert pieces.getresponse().getheader("x-mock") == "s0"
        pieces.close()
        assert servers[0].seen[0].body == b'{"model":"m"}'


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        ("/x?model=voxtral", "s0"),
        ("/x?a=b&mod%65l=voxtral-mini&c", "s0"),
        ("/x?models=voxtral", "s1"),
        ("/x?a=model=voxtral", "s1"),
        ("/x/model=voxtral", "s1"),
        ("/x?model=voxtral&model=other", ""),
        ("/x?model=vo%78tral", ""),
        ("/%zz?a=b", ""),
        ("/x%2", ""),
    ],
)
def test_parameters_of_the_query(servers: list[MockServer], tmp_path: Path, path: str, goes: str) -> None:
    routes = [{"query": {"model": "voxtral*"}, "pool": "s0"}, {"pool": "s1"}]
    with running(edge(servers[:2], {"routes": routes}), tmp_path) as site:
        answer = site.ask(path)
        assert answer.headers.get("x-mock", "") == goes
        assert goes or (answer.status, answer.code) == (400, "bad_request")


def test_fields_of_the_log_of_ones_own(servers: list[MockServer], tmp_path: Path) -> None:
    fields = {"model": "model", "from": "client_address", "size": "prompt_bytes", "most": "max_tokens",
              "agent": "header:User-Agent", "site": "rack 7"}  # fmt: skip
    listener = {"routes": [{"model": "m", "pool": "s0"}, {"pool": "s1"}]}
    with running({**edge(servers[:2], listener), "logs": {"fields": fields}}, tmp_path) as site:
        site.post("/v1/x", b'{"model": "m", "max_tokens": 7}', {"user-agent": 'it"s me'})
        site.ask("/v1/models")
        eventually(lambda: len(site.lines()) == 2, 15, "the lines")
        first, second = ({name: line[name] for name in fields} for line in site.lines())
    assert first == {"model": "m", "from": "127.0.0.1", "size": 31, "most": 7, "agent": 'it"s me',
                     "site": "rack 7"}  # fmt: skip
    assert second == {"model": None, "from": "127.0.0.1", "size": None, "most": None,
                      "agent": None, "site": "rack 7"}  # fmt: skip


def test_paths_by_which_engines_are_run_are_closed(servers: list[MockServer], tmp_path: Path) -> None:
    routes = [{"path": "/gpt", "strip_prefix": True, "pool": "s0"}, {"pool": "s1"}]
    wanted = edge(servers[:2], {"routes": routes})
    wanted["pools"]["s1"]["admin"] = "pass"
    with running(wanted, tmp_path) as site:
        for path in ("/gpt/sleep", "/gpt//sleep?level=1", "/gpt/%73leep", "/gpt/SLEEP", "/gpt/x/../sleep",
                     "/gpt/sleep%0a", "/gpt/v1/load_lora_adapter"):  # fmt: skip
            answer = site.post(path, {})
            assert (answer.status, answer.code) == (403, "admin_path_refused"), path
        assert site.post("/gpt/sleepy", {}).status == 200
        assert site.post("/sleep", {}).status == 200
        assert [seen.path for seen in servers[0].seen] == ["/sleepy"]


def test_bodies_and_headers_that_are_too_large(servers: list[MockServer], tmp_path: Path) -> None:
    with running(edge(servers[:1], {"max_body": "1MiB", "header_size": "8KiB"}), tmp_path) as site:
        answer = site.post("/x", b"x" * (1024 * 1024 + 1))
        assert (answer.status, answer.code) == (413, "request_too_large")
        assert site.post("/x", b"x" * 1024 * 1024).status == 200
        large = site.ask("/x", headers={"x-large": "x" * 9_000})
        assert (large.status, large.code) == (431, "headers_too_large")
        assert len(servers[0].seen) == 1


def test_what_clients_claim_is_not_believed(servers: list[MockServer], tmp_path: Path) -> None:
    claims = {"x-forwarded-for": "6.6.6.6", "forwarded": "for=6.6.6.6", "x-real-ip": "6.6.6.6",
              "x-envoy-upstream-rq-timeout-ms": "1", "x-forwarded-host": "evil"}  # fmt: skip
    servers[0].first_s = 0.2
    with running(edge(servers[:1], {}), tmp_path) as site:
        assert site.ask("/x", headers=claims).status == 200
        seen = servers[0].seen[0].headers
        assert seen["x-forwarded-for"] == seen["x-real-ip"] == "127.0.0.1"
        assert "forwarded" not in seen
        assert seen["x-forwarded-host"] == f"127.0.0.1:{site.port}" == seen["host"]


def test_trusted_proxies(servers: list[MockServer], tmp_path: Path) -> None:
    with running(edge(servers[:1], {"trusted_proxies": ["127.0.0.0/8"]}), tmp_path) as site:
        site.ask("/x", headers={"x-forwarded-for": "6.6.6.6, 9.9.9.9"})
        assert servers[0].seen[0].headers["x-real-ip"] == "9.9.9.9"


def test_hosts_on_one_address(servers: list[MockServer], tmp_path: Path) -> None:
    listeners = {
        "a": {"hosts": ["a.example.org"], "routes": [{"pool": "s0"}]},
        "b": {"hosts": ["*.b.example.org"], "routes": [{"pool": "s1"}],
              "limits": [{"rate": "1/h", "per": "total"}]},
    }  # fmt: skip
    fleet = {**edge(servers[:2], {}), "listeners": listeners}
    with running(fleet, tmp_path) as site:
        assert site.ask("/x", headers={"host": "a.example.org"}).headers["x-mock"] == "s0"
        assert site.ask("/x", headers={"host": "A.example.org:80"}).headers["x-mock"] == "s0"
        found = [site.ask("/x", headers={"host": "x.b.example.org"}) for _ in range(2)]
        assert [one.status for one in found] == [200, 429]
        assert site.ask("/x", headers={"host": "other"}).status == 404


def test_ready_with_several_pools(servers: list[MockServer], tmp_path: Path) -> None:
    with running(
        edge(servers, {"routes": [{"path": f"/{s.name}", "pool": s.name} for s in servers]}), tmp_path
    ) as site:
        servers[0].health = servers[1].health = 500
        eventually(lambda: site.ask("/s0/x").status == 503 == site.ask("/s1/x").status, 5, "two are out")
        assert [site.ask("/lb/ready").status for _ in range(5)] == [200] * 5
        servers[2].health = 500
        eventually(lambda: site.ask("/lb/ready").status == 503, 5, "none is left")
        assert not any(seen.path.endswith("ready") for server in servers for seen in server.seen)


def test_cors(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].headers = {"access-control-allow-origin": "https://evil.example"}
    fleet = edge(servers[:1], {"cors": {"origins": ["https://chat.example.org"]}, "auth": {"clients": "all"}},
                 clients={"a": {"key": "env:A"}})  # fmt: skip
    with running(fleet, tmp_path) as site:
        origin = {"origin": "https://chat.example.org"}
        asked = {
            **origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization",
        }
        preflight = site.ask("/x", "OPTIONS", headers=asked)
        assert preflight.status in {200, 204}
        assert preflight.headers["access-control-allow-origin"] == "https://chat.example.org"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        assert (
            site.ask("/x", headers={**origin, **bearer("sk-a")}).headers["access-control-allow-origin"]
            == origin["origin"]
        )
        assert (
            "access-control-allow-origin"
            not in site.ask("/x", headers={"origin": "https://evil.example", **bearer("sk-a")}).headers
        )


def test_websockets(servers: list[MockServer], tmp_path: Path) -> None:
    with running(edge(servers[:1], {"websocket": True}), tmp_path) as site:
        headers = {
            "connection": "upgrade",
            "upgrade": "websocket",
            "sec-websocket-key": "x",
            "sec-websocket-version": "13",
        }
        site.ask("/x", headers=headers)
        assert servers[0].seen[0].headers["upgrade"] == "websocket"


def test_split_and_when_down(servers: list[MockServer], tmp_path: Path) -> None:
    routes = [
        {"path": "/split", "split": {"s0": 90, "s1": 10}},
        {"pool": "s0", "when_down": "s2"},
    ]
    with running(edge(servers, {"routes": routes}), tmp_path) as site:
        found = [site.ask("/split/x").headers["x-mock"] for _ in range(200)]
        assert 2 <= found.count("s1") <= 60
        assert site.ask("/x").headers["x-mock"] == "s0"
        servers[0].health = 500
        eventually(lambda: site.ask("/x").headers.get("x-mock") == "s2", 5, "the second pool")


def test_metrics(servers: list[MockServer], tmp_path: Path) -> None:
    port = free_port()
    metrics = {"bind": f"127.0.0.1:{port}", "auth": {"user": "u", "password": "env:P"}}
    with running({**edge(servers[:1], {}), "metrics": metrics}, tmp_path) as site:
        site.ask("/x")
        assert site.ask("/metrics", port=port).status == 401
        page = site.ask("/metrics", port=port, headers={"authorization": "Basic dTpwdw=="})
        assert page.status == 200
        assert b"envoy_cluster_upstream_rq_total" in page.body
        assert site.ask("/ready", port=port).status == 200
        assert site.ask("/live", port=port).status == 200
        assert site.ask("/quitquitquit", "POST", port=port).status in {401, 404}


def test_tls(servers: list[MockServer], tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text(throwaway_bundle("a.example.org"))
    (tmp_path / "b.pem").write_text(throwaway_bundle("b.example.org"))
    listeners: dict[str, Any] = {
        name: {"hosts": [f"{name}.example.org"], "tls": {"bundle": f"{name}.pem"}, "routes": [{"pool": one}],
               "status": {"live": "/lb/live"}}
        for name, one in (("a", "s0"), ("b", "s1"))
    }  # fmt: skip
    port = free_port()
    for listener in listeners.values():
        listener["bind"] = f"127.0.0.1:{port}"
    listeners["plain"] = {"routes": [{"pool": "s0"}]}
    with running({**edge(servers[:2], {}), "listeners": listeners}, tmp_path):
        assert over_tls(port, "a.example.org", "a.example.org").getheader("x-mock") == "s0"
        assert over_tls(port, "b.example.org", "b.example.org").getheader("x-mock") == "s1"
        assert over_tls(port, "a.example.org", "b.example.org").status == 421


def over_tls(port: int, name: str, host: str) -> http.client.HTTPResponse:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    class Named(http.client.HTTPSConnection):
        def connect(self) -> None:
            http.client.HTTPConnection.connect(self)
            self.sock = context.wrap_socket(self.sock, server_hostname=name)

    connection = Named("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/x", headers={"host": host})
        response = connection.getresponse()
        response.read()
        return response
    finally:
        connection.close()
