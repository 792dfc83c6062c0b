"""Where Envoy sends requests with each strategy."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from integration.envoy_site import MockServer, Site, mocks, pool, running, version
from integration.waiting import eventually
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("envoy_version")


@pytest.fixture
def servers() -> Iterator[list[MockServer]]:
    with mocks(4) as found:
        yield found


def who(site: Site, times: int, **headers: str) -> Counter[str]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Counter(site.ask("/v1/x", headers=sent).headers["x-mock"] for _ in range(times))


def fleet(servers: list[MockServer], strategy: Any, **more: Any) -> dict[str, Any]:
    return {"pools": {"chat": pool(servers, strategy=strategy, **more)}}


def test_round_robin_with_weights(servers: list[MockServer], tmp_path: Path) -> None:
    wanted = fleet(servers, "round_robin")
    wanted["pools"]["chat"]["servers"][0]["weight"] = 3
    with running(wanted, tmp_path) as site:
        found = who(site, 120)
        assert 50 <= found["s0"] <= 70
        assert all(12 <= found[name] <= 28 for name in ("s1", "s2", "s3"))


def together(site: Site, number: int, servers: list[MockServer]) -> list[int]:
    """Return the most that each server had while so many streams ran."""
    threads = [threading.Thread(target=site.ask, args=("/v1/x",)) for _ in range(number)]
    most = [0] * len(servers)
    for thread in threads:
        thread.start()
        # One after the other: with all at once two workers choose before either has counted.
        threading.Event().wait(0.02)
    for index, server in enumerate(servers):
        most[index] = server.running
    for thread in threads:
        thread.join()
    return most


def test_least_conn_keeps_servers_alike_across_workers(servers: list[MockServer], tmp_path: Path) -> None:
    for server in servers:
        server.pieces, server.gap_s = 2, 1.5
    with running(fleet(servers, "least_conn"), tmp_path) as site:
        assert together(site, 24, servers) == [6, 6, 6, 6]


def test_least_conn_goes_around_a_busy_server(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].first_s = 8
    with running(fleet(servers[:2], "least_conn"), tmp_path) as site, ThreadPoolExecutor(20) as clients:
        # Between idle servers it draws: until the slow one has drawn a request.
        while not servers[0].running:
            clients.submit(site.ask, "/v1/x")
            threading.Event().wait(0.2)
        assert who(site, 12) == {"s1": 12}


def test_least_conn_spreads_a_burst(servers: list[MockServer], tmp_path: Path) -> None:
    for server in servers:
        server.first_s = 4
    with running(fleet(servers, "least_conn"), tmp_path) as site, ThreadPoolExecutor(48) as clients:
        asked = [clients.submit(site.ask, "/v1/x") for _ in range(48)]
        eventually(lambda: sum(server.running for server in servers) == 48, 30, "all are in flight")
        there = sorted(server.running for server in servers)
        if version() >= Version(1, 40):  # older ones count no request that waits for its connection
            assert there[-1] - there[0] <= 6, there
        assert {one.result().status for one in asked} == {200}


@pytest.mark.parametrize(
    ("strategy", "headers"),
    [
        ({"name": "session", "header": "X-Session-Id"}, lambda n: {"x_session_id": f"n{n}"}),
        ({"name": "session", "cookie": "chat"}, lambda n: {"cookie": f"a=b; chat=n{n}"}),
    ],
    ids=["header", "cookie"],
)
def test_sessions(
    servers: list[MockServer], tmp_path: Path, strategy: Any, headers: Callable[[int], dict[str, str]]
) -> None:
    with running(fleet(servers, strategy), tmp_path) as site:
        homes = [who(site, 3, **headers(number)) for number in range(40)]
        assert all(len(home) == 1 for home in homes)
        assert len({next(iter(home)) for home in homes}) == 4
        assert len(who(site, 40)) == 4, "who has no session is spread"


def test_a_server_less_moves_only_its_own_sessions(servers: list[MockServer], tmp_path: Path) -> None:
    strategy = {"name": "session", "header": "X-Session-Id", "strict": True}
    with running(fleet(servers, strategy), tmp_path) as site:
        before = [next(iter(who(site, 1, x_session_id=f"n{n}"))) for n in range(60)]
        site.write(fleet(servers[1:], strategy))
        threading.Event().wait(1.5)
        after = [next(iter(who(site, 1, x_session_id=f"n{n}"))) for n in range(60)]
        assert "s0" not in after
        assert all(new == old for old, new in zip(before, after, strict=True) if old != "s0")


def test_an_inserted_cookie_names_the_server(servers: list[MockServer], tmp_path: Path) -> None:
    with running(fleet(servers, {"name": "session", "insert": "lb"}), tmp_path) as site:
        first = site.ask("/v1/x")
        cookie = first.headers["set-cookie"].partition(";")[0]
        assert cookie.startswith("lb=")
        assert who(site, 12, cookie=cookie) == {first.headers["x-mock"]: 12}
        assert len(who(site, 40)) == 4


def chat(system: str, user: str, *turns: str) -> dict[str, Any]:
    later = [{"role": "assistant" if n % 2 == 0 else "user", "content": text} for n, text in enumerate(turns)]
    first = [
        {"role": "system", "content": system},
        {"role": "user", "content": [{"type": "text", "text": user}]},
    ]
    return {"model": "m", "messages": [*first, *later]}


def home(site: Site, body: object, headers: dict[str, str] | None = None) -> str:
    return site.post("/v1/chat/completions", body, headers).headers["x-mock"]


def test_prefix_by_conversation(servers: list[MockServer], tmp_path: Path) -> None:
    with running(fleet(servers, {"name": "prefix", "key": "conversation"}), tmp_path) as site:
        homes = set()
        for number in range(24):
            first = home(site, chat("same", f"question {number}"))
            assert home(site, chat("same", f"question {number}", "answer", "more")) == first
            homes.add(first)
        assert homes == {"s0", "s1", "s2", "s3"}
        named = [home(site, chat("a", str(n)), {"X-Session-Id": "one"}) for n in range(8)]
        assert len(set(named)) == 1
        keyed = [home(site, {"prompt": str(n), "prompt_cache_key": "k"}) for n in range(8)]
        assert len(set(keyed)) == 1
        spoofed = {"x-lb-key-conversation-16384": "0"}
        spread = {home(site, chat("x", f"other {n}"), spoofed) for n in range(24)}
        assert len(spread) == 4, "a client's own header decides nothing"
        assert not [name for seen in servers[0].seen for name in seen.headers if name.startswith("x-lb-")]


def test_prefix_by_system_prompt(servers: list[MockServer], tmp_path: Path) -> None:
    with running(fleet(servers, {"name": "prefix", "key": "system_prompt"}), tmp_path) as site:
        assert len({home(site, chat("tenant", f"question {n}")) for n in range(12)}) == 1
        assert len({home(site, chat(f"tenant {n}", "question")) for n in range(40)}) == 4
        assert home(site, b"not json at all") in {"s0", "s1", "s2", "s3"}


def test_session_by_the_body(servers: list[MockServer], tmp_path: Path) -> None:
    with running(fleet(servers, {"name": "session", "body": "$.metadata.user_id"}), tmp_path) as site:
        found = [
            {home(site, {"metadata": {"user_id": f"u{n}"}, "x": t}) for t in range(3)} for n in range(24)
        ]
        assert all(len(one) == 1 for one in found)
        assert len(set.union(*found)) == 4


def test_session_by_client_and_split_by_client(servers: list[MockServer], tmp_path: Path) -> None:
    clients = {"a": {"key": "env:A"}, "b": {"key": "env:B"}}
    by_client = {"name": "session", "client": True}
    pools = {
        "one": pool(servers[:2], strategy=by_client),
        "two": pool(servers[2:3]),
        "three": pool(servers[3:]),
    }
    routes = [{"path": "/s", "pool": "one"}, {"split": {"two": 1, "three": 1}, "by": "client"}]
    listener = {"auth": {"clients": "all"}, "routes": routes}
    with running({"pools": pools, "clients": clients, "listeners": {"public": listener}}, tmp_path) as site:
        for path in ("/s/x", "/x"):
            for key in ("sk-a", "sk-b"):
                headers = {"authorization": f"Bearer {key}"}
                assert len({site.ask(path, headers=headers).headers["x-mock"] for _ in range(12)}) == 1
        assert not [
            name for one in servers for seen in one.seen for name in seen.headers if name.startswith("x-lb-")
        ]


def test_split_by_a_header(servers: list[MockServer], tmp_path: Path) -> None:
    pools = {"one": pool(servers[:1]), "two": pool(servers[1:2])}
    routes = [{"split": {"one": 50, "two": 50}, "by": {"header": "X-User"}}]
    with running({"pools": pools, "listeners": {"public": {"routes": routes}}}, tmp_path) as site:
        found = [who(site, 4, x_user=f"u{n}") for n in range(30)]
        assert all(len(one) == 1 for one in found)
        assert 5 <= sum("s0" in one for one in found) <= 25
        assert len(who(site, 30)) == 2


def test_what_is_above_the_pools_cap_is_503(servers: list[MockServer], tmp_path: Path) -> None:
    for server in servers:
        server.first_s = 2
    with running(fleet(servers[:2], "least_conn", max_in_flight=2, passive_health=False), tmp_path) as site:
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(site.ask("/v1/x").status)) for _ in range(7)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] * 4 + [503] * 3


def test_passive_health(servers: list[MockServer], tmp_path: Path) -> None:
    servers[0].close()
    settings = {"failures": 2, "eject": "60s"}
    wanted = fleet(servers, "round_robin", passive_health=settings, retry=False)
    wanted["pools"]["chat"]["health"] = False
    with running(wanted, tmp_path) as site:
        statuses = [site.ask("/v1/x").status for _ in range(40)]
        assert 2 <= statuses.count(503) <= 3
        assert statuses[-20:] == [200] * 20
