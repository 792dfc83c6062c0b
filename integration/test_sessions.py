"""Servers with state behind every balancer: what is promised of sessions holds for every request."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration.fleets import THREE, Proxy, files
from integration.stateful_servers import MCP, StatefulServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.lab.boxes import Balancer
    from lbgen.lab.rig import Rig

TRIES = THREE
SESSIONS = 25
FOLLOW_UPS = 8
"""Of each session: 200 in all."""
AT_ONCE = 8
REMEMBERS = "1.30"
"""The NGINX that remembers sessions; older ones hash."""
STRATEGIES: dict[str, dict[str, Any]] = {
    "mcp": {"name": "session", "learn": {"header": MCP}},
    "gradio": {"name": "session", "insert": "lb_session"},
    "responses": {"name": "session", "body": "$.user", "strict": True},
    "nested": {"name": "session", "body": "$.metadata.user_id", "strict": True},
    "header": {"name": "session", "header": "X-Session-Id", "strict": True},
    "cookie": {"name": "session", "cookie": "chat-session", "strict": True},
    "query": {"name": "session", "query": "session_hash", "strict": True},
}
WITH_COOKIES = {"mcp": {"name": "session", "insert": "mcp_session"}}
"""For NGINX that cannot learn: MCP clients that keep cookies, as those made with the Python SDK."""


class Got(NamedTuple):
    """What a client got; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def server(self) -> str:
        return str(self.body["server"])


class Running(NamedTuple):
    """A balancer in front of four servers, and one more that it does not know yet."""

    proxy: Proxy
    box: Balancer
    servers: tuple[StatefulServer, ...]

    def ask(self, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Got:
        """Send a request on a connection of its own: GET without a body."""
        connection = http.client.HTTPConnection(self.box.address, 8080, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, data, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status in {200, 404}, text
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Got(answer.status, found, json.loads(text))
        finally:
            connection.close()

    @property
    def remembers(self) -> bool:
        return self.proxy.target == "haproxy" or self.proxy.version == REMEMBERS

    def reload(self, count: int = 4) -> None:
        """Make the balancer read its files again, which name so many of the servers."""
        if self.proxy == Proxy("bookworm", "haproxy"):
            # A process that is younger than 5 s hands no table over (2.6.12; not 3.0 and 3.2).
            time.sleep(6)
        self.box.reload(rendered(self.proxy, self.servers[:count], interval=f"{count}s"))
        # HAProxy's new process serves a few hundredths of a second before it has the old one's table.
        time.sleep(1)


def rendered(proxy: Proxy, servers: tuple[StatefulServer, ...], interval: str = "5s") -> Any:  # files
    learns = proxy.target == "haproxy" or proxy.version == REMEMBERS
    strategies = STRATEGIES if learns else STRATEGIES | WITH_COOKIES
    pool = {"engine": "http", "servers": [server.address for server in servers], "warmup": interval}
    fleet = {
        "pools": {name: {**pool, "strategy": strategy} for name, strategy in strategies.items()},
        "listeners": {
            "default": {
                "bind": "*:8080",
                "routes": [{"path": f"/{name}", "pool": name} for name in strategies],
            }
        },
    }
    return files(fleet, proxy)


@pytest.fixture(scope="module")
def running(module_proxy: Proxy, rig: Rig) -> Iterator[Running]:
    """One container for all tests of a balancer."""
    with ExitStack() as stack:
        servers = tuple(stack.enter_context(StatefulServer(rig.gateway)) for _ in range(5))
        box = rig.balancer(module_proxy.target, module_proxy.image, rendered(module_proxy, servers[:4]))
        stack.callback(box.remove)
        yield Running(module_proxy, box, servers)


Follow = Callable[[], Got]


def mcp(running: Running) -> tuple[Got, Follow]:
    """Begin an MCP session (Streamable HTTP): the server names it in a header."""
    first = running.ask("/mcp/mcp", {"method": "initialize"})
    named = {MCP: first.headers[MCP.lower()]}
    if "set-cookie" in first.headers:
        named["Cookie"] = first.headers["set-cookie"].partition(";")[0]
    return first, lambda: running.ask("/mcp/mcp", {"method": "tools/list"}, named)


def gradio(running: Running) -> tuple[Got, Follow]:
    """Open a page in a browser, which keeps cookies; join a queue, and ask for its events."""
    session = uuid.uuid4().hex
    page = running.ask("/gradio/")
    cookie = {"Cookie": f"theme=dark; {page.headers['set-cookie'].partition(';')[0]}"}
    first = running.ask("/gradio/join", {"session_hash": session}, cookie)
    return first, lambda: running.ask(f"/gradio/data?session_hash={session}", None, cookie)


def _responses(running: Running, pool: str, path: str = "", **parts: Any) -> tuple[Got, Follow]:
    """Begin a conversation of the Responses API, of which each turn names the one before."""
    last = [running.ask(f"/{pool}/v1/responses{path}", parts.get("body", {}), parts.get("headers"))]

    def follow() -> Got:
        body = {**parts.get("body", {}), "previous_response_id": last[-1].body["id"]}
        got = running.ask(f"/{pool}/v1/responses{path}", body, parts.get("headers"))
        if got.status == 200:
            last.append(got)
        return got

    return last[0], follow


def begin(running: Running, pool: str) -> tuple[Got, Follow]:
    """Begin a session in a pool; return the first answer, and what goes on with it."""
    name = uuid.uuid4().hex
    if pool == "mcp":
        return mcp(running)
    if pool == "gradio":
        return gradio(running)
    parts: dict[str, dict[str, Any]] = {
        "responses": {"body": {"model": "m", "input": "Hello", "user": name}},
        "nested": {"body": {"metadata": {"tier": "x", "user_id": name}, "input": [{"role": "user"}]}},
        "header": {"headers": {"X-Session-Id": name}},
        "cookie": {"headers": {"Cookie": f"a=b; chat-session={name}"}},
        "query": {"path": f"?a=b&session_hash={name}"},
    }
    return _responses(running, pool, **parts[pool])


def begun(running: Running, pool: str, count: int = SESSIONS) -> list[tuple[Got, Follow]]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(lambda _: begin(running, pool), range(count)))


def lost(sessions: list[tuple[Got, Follow]], times: int = FOLLOW_UPS) -> int:
    """Go on with all sessions, eight at once; return how many requests missed the server."""

    def go_on(session: tuple[Got, Follow]) -> int:
        return sum(session[1]().status != 200 for _ in range(times))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return sum(threads.map(go_on, sessions))


@pytest.mark.parametrize("pool", STRATEGIES)
def test_every_follow_up_finds_its_server(running: Running, pool: str) -> None:
    sessions = begun(running, pool)
    assert lost(sessions) == 0
    homes = Counter(first.server for first, _ in sessions)
    assert len(homes) >= 3, homes  # of 25 names that are hashed, one run in 300 leaves a server out


@pytest.mark.parametrize("pool", STRATEGIES)
def test_a_reload_loses_no_session(running: Running, pool: str) -> None:
    sessions = begun(running, pool)
    running.reload()
    assert lost(sessions, 4) == 0


@pytest.mark.parametrize("pool", STRATEGIES)
def test_a_new_server_takes_no_session_away(running: Running, pool: str) -> None:
    sessions = begun(running, pool)
    running.reload(5)
    try:
        missed = lost(sessions, 2)
        later = Counter(first.server for first, _ in begun(running, pool, 40))
    finally:
        running.reload()
    assert missed == 0 or not running.remembers
    assert missed <= 25, "where NGINX hashes, a fifth of the sessions moves"
    assert running.servers[4].address in later


@pytest.mark.parametrize("pool", ["header", "responses"])
def test_requests_of_a_session_that_begin_together_agree(running: Running, pool: str) -> None:
    for _ in range(4):
        name = uuid.uuid4().hex
        asked = (f"/{pool}/v1/responses", {"user": name}, {"X-Session-Id": name})
        with ThreadPoolExecutor(16) as threads:
            got = list(threads.map(running.ask, *([part] * 16 for part in asked)))
        assert len({one.server for one in got}) == 1


@pytest.mark.parametrize(
    ("pool", "body", "headers"),
    [
        ("header", {}, {"X-Session-Id": ""}),
        ("header", {}, {}),
        ("cookie", {}, {"Cookie": "chat-session="}),
        ("responses", {"user": ""}, {}),
    ],
)
def test_an_empty_name_is_no_name(
    running: Running, pool: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        got = threads.map(lambda _: running.ask(f"/{pool}/v1/responses", body, headers), range(40))
    shares = Counter(one.server for one in got)
    if running.proxy.target == "envoy" and headers.get("X-Session-Id") == "":
        assert len(shares) == 1, "Envoy hashes an empty header, too"
        return
    assert len(shares) == 4, shares
    # HAProxy takes the next point of its ring, which is as even as dice.
    assert max(shares.values()) <= 24, shares
