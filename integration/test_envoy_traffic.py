"""Envoy with rendered files: what LLM traffic needs, as behaviour."""

from __future__ import annotations

import itertools
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from integration.envoy_site import MockServer, Site, mocks, pool, running
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("envoy_version")


@pytest.fixture
def servers() -> Iterator[list[MockServer]]:
    with mocks(3) as found:
        yield found


def test_streams_arrive_as_they_are_made(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].pieces, servers[0].gap_s = 5, 0.2
    with running({"pools": {"chat": pool(servers[:1])}}, tmp_path) as site:
        times = []
        with site.stream("/v1/chat/completions") as response:
            while response.read(1):
                times.append(time.monotonic())
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert sum(gap > 0.1 for gap in gaps) >= 4, "the pieces came together"


def test_no_time_limit_of_fifteen_seconds(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].first_s = 16.5
    with running({"pools": {"chat": pool(servers[:1])}}, tmp_path) as site:
        assert site.ask("/v1/x").status == 200


def test_first_byte_and_gaps_have_limits_of_their_own(servers: list[MockServer], tmp_path: Path) -> None:
    one = pool(servers[:1], timeouts={"first_byte": "1s", "idle": "30s"}, retry=False)
    with running({"pools": {"chat": one}}, tmp_path) as site:
        servers[0].first_s = 3
        answer = site.ask("/v1/x")
        assert (answer.status, answer.code) == (504, "gateway_timeout")
        servers[0].first_s, servers[0].pieces, servers[0].gap_s = 0, 3, 1.5
        whole = site.ask("/v1/x")
        assert (whole.status, whole.body.count(b"data:")) == (200, 3)


def test_a_sent_request_is_not_sent_again(servers: list[MockServer], tmp_path: Path) -> None:
    for server in servers:
        server.resets = True
    with running({"pools": {"chat": pool(servers, retry={"attempts": 3})}}, tmp_path) as site:
        answer = site.post("/v1/chat/completions", {"model": "m"})
        assert (answer.status, answer.code) == (502, "bad_gateway")
        assert sum(len(server.seen) for server in servers) == 1


def test_posts_are_not_repeated_where_others_are(servers: list[MockServer], tmp_path: Path) -> None:
    for server in servers:
        server.status = 503
    retry = {"attempts": 2, "on": ["connect", "503"]}
    with running({"pools": {"chat": pool(servers, retry=retry, passive_health=False)}}, tmp_path) as site:
        site.post("/v1/chat/completions", {})
        assert sum(len(server.seen) for server in servers) == 1
        site.ask("/v1/models/x")
        assert sum(len(server.seen) for server in servers) == 4


def test_a_refused_connection_is_tried_elsewhere(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].close()
    with running({"pools": {"chat": pool(servers[:2], health=False)}}, tmp_path) as site:
        assert [site.post("/v1/x", {}).status for _ in range(10)] == [200] * 10
        assert len(servers[1].seen) == 10


def test_who_leaves_stops_the_work(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].pieces, servers[0].gap_s = 1000, 0.02
    with running({"pools": {"chat": pool(servers[:1])}}, tmp_path) as site:
        with socket.create_connection(("127.0.0.1", site.port)) as client:
            client.sendall(b"POST /v1/x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
            assert client.recv(1000)
        assert servers[0].aborted.wait(3)


def test_no_server_is_503_with_a_hint(servers: list[MockServer], tmp_path: Path) -> None:
    for server in servers:
        server.health = 500
    with running({"pools": {"chat": pool(servers)}}, tmp_path) as site:
        answer = site.ask("/v1/x")
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (
            503,
            "service_unavailable",
            "1",
        )
        assert site.ask("/lb/ready").status == 503
        servers[0].health = 200
        eventually(lambda: site.ask("/lb/ready").status == 200, 5, "ready again")
        assert site.ask("/v1/x").headers["x-mock"] == servers[0].name


def test_backups_wait_until_nobody_else_lives(servers: list[MockServer], tmp_path: Path) -> None:
    fleet = {"pools": {"chat": pool(servers)}}
    fleet["pools"]["chat"]["servers"][2]["backup"] = True
    with running(fleet, tmp_path) as site:
        servers[0].health = 500
        eventually(lambda: "s0" not in {site.ask("/v1/x").headers["x-mock"] for _ in range(8)}, 5, "s0 out")
        assert {site.ask("/v1/x").headers["x-mock"] for _ in range(20)} == {"s1"}
        servers[1].health = 500
        eventually(lambda: site.ask("/v1/x").headers.get("x-mock") == "s2", 5, "the backup")


def test_the_log_has_the_fields_of_the_other_targets(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].first_s = 0.05
    with running({"pools": {"chat": pool(servers[:1])}}, tmp_path) as site:
        site.ask("/v1/x?key=hidden", headers={"x-request-id": "mine"})
        site.ask("/lb/live")
        eventually(lambda: bool(site.lines()), 15, "a line")
        (line,) = site.lines()
        assert line["duration_s"] >= 0.05
        assert line["upstream_first_byte_ms"] >= 45
        assert line["upstream_total_s"] >= 0.04
        known = {"request_id": "mine", "method": "GET", "path": "/v1/x", "listener": "public", "pool": "chat",
                 "server": "s0", "status": 200, "client": None}  # fmt: skip
        assert {name: line[name] for name in known} == known
        assert "hidden" not in json.dumps(line)


def test_files_change_what_runs(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].pieces, servers[0].gap_s = 60, 0.05
    fleet: dict[str, Any] = {"pools": {"chat": pool(servers[:1])}}
    with running(fleet, tmp_path) as site, site.stream("/v1/long") as response:
        site.write({"pools": {"chat": pool(servers[1:])}})
        eventually(
            # Servers that are all new get nothing before their first check has ended.
            lambda: {site.ask("/v1/x").headers.get("x-mock") for _ in range(6)} == {"s1", "s2"},
            15,
            "new ones",
        )
        site.write(
            {
                "pools": {"chat": pool(servers[1:]), "other": pool(servers[:1])},
                "listeners": {"public": {"routes": [{"path": "/o", "pool": "other"}, {"pool": "chat"}]}},
            }
        )
        servers[0].gap_s = 0.0
        eventually(lambda: site.ask("/o/x").headers.get("x-mock") == "s0", 5, "a new pool and route")
        assert response.read().count(b"data:") == 60, "a stream was cut"


def drained(site: Site, server: MockServer) -> bool:
    before = len(server.seen)
    assert all(site.ask("/v1/x").status == 200 for _ in range(6))
    return len(server.seen) == before


def test_a_drained_server_ends_its_streams(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].pieces, servers[0].gap_s = 60, 0.05
    before = {"pools": {"chat": pool(servers[:1])}}
    with running(before, tmp_path) as site, site.stream("/v1/long") as response:
        fleet: dict[str, Any] = {"pools": {"chat": pool(servers[:2])}}
        fleet["pools"]["chat"]["servers"][0]["state"] = "drain"
        site.write(fleet)
        eventually(lambda: drained(site, servers[0]), 5, "no new requests")
        assert response.read().count(b"data:") == 60, "a stream was cut"
