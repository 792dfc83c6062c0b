"""Which server gets what, for each strategy on each balancer of each generation."""

from __future__ import annotations

import asyncio
import copy
import http.client
import json
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from integration.conftest import renewed
from integration.fleets import PROXIES, QUEUEING, SERVERS, Proxy, files
from lbgen.fleet.load import load as load_fleet
from lbgen.fleet.text.source import Source
from lbgen.lab import load
from lbgen.lab.mock import echo
from lbgen.lab.mock.pace import HEADER as PACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig

pytestmark = pytest.mark.slow

EVERYWHERE: dict[str, dict[str, Any]] = {
    "header": {"strategy": {"name": "session", "header": "X-Session-Id"}},
    "cookie": {"strategy": {"name": "session", "cookie": "chat"}},
    "prefix": {"strategy": {"name": "prefix", "key": "system_prompt"}},
    "begin": {"strategy": {"name": "prefix", "key": "first_bytes", "bytes": 512}},
    "capped": {"strategy": {"name": "prefix", "key": "system_prompt"}, "max_in_flight": 28},
    "exact": {"strategy": "round_robin", "servers": "gpu-[0-1]:8000"},
    "glob": {"strategy": "round_robin", "servers": "gpu-[2-3]:8000"},
}
WITH_A_QUEUE: dict[str, dict[str, Any]] = {
    "pack": {"strategy": "pack", "max_in_flight": 16},
    "short": {
        "servers": "gpu-0:8000",
        "max_in_flight": 1,
        "queue": {"order": "shortest_first", "timeout": "30s"},
    },
    "class": {"servers": "gpu-1:8000", "max_in_flight": 1},
}
"""What open source NGINX does not have."""
KEYS = 120
FEW = 4
"""Keys that may go elsewhere: where HAProxy bounds loads, a request that is just ending counts against its
server, and in an idle pool one is the bound (seen on 2.6 to 3.2)."""
MODELS = {"small": "exact", "llama-*": "glob"}


class Answer(NamedTuple):
    """What a client got; `server` is None where the balancer answered itself."""

    status: int
    server: str | None
    body: bytes


class Running(NamedTuple):
    """A balancer with all pools, each under the path of its name; models on a port of their own."""

    proxy: Proxy
    box: Balancer

    def ask(self, path: str, body: object = None, port: int = 8080, headers: Any = None) -> Answer:
        """Send one chat request; `body`: text and JSON as they are, a list of bytes in chunks."""
        return self.whole(f"{path}/v1/chat/completions", port, body, headers)

    def whole(self, path: str, port: int, body: object = None, headers: Any = None) -> Answer:
        """Send one request to a path as it is; GET without a body."""
        chunks = isinstance(body, list)
        data = body if isinstance(body, (str, list)) else json.dumps(body)
        sent = {"Content-Type": "application/json", echo.HEADER: "{}", **(headers or {})}
        connection = http.client.HTTPConnection(self.box.address, port, timeout=20)
        try:
            connection.request(
                "GET" if body is None else "POST", path,
                None if body is None else data, sent, encode_chunked=chunks,
            )  # fmt: skip
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheader("x-mock-server"), answer.read())
        finally:
            connection.close()

    def server(self, path: str, body: object = None, **headers: str) -> str:
        """Send one request; return which server answered."""
        answer = self.ask(f"/{path}", body, headers=headers)
        assert answer.status == 200, answer
        assert answer.server is not None
        return answer.server

    def burst(self, path: str, planned: list[load.Planned]) -> list[load.Result]:
        """Send requests at their times."""
        results = asyncio.run(load.run(f"{self.box.url}/{path}", planned, most_late_s=1.0))
        failed = [result for result in results if not result.ok]
        assert not failed, failed[:3]
        return results


def pools_of(target: str) -> dict[str, dict[str, Any]]:
    return copy.deepcopy(EVERYWHERE | (WITH_A_QUEUE if target == "haproxy" else {}))


def fleet_for(target: str, pools: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the fleet: a route for each pool by its path, and the routes by model on port 8081."""
    for pool in pools.values():
        pool.setdefault("servers", "gpu-[0-3]:8000")
        pool["engine"] = "vllm"
    routes: list[dict[str, Any]] = [{"path": f"/{name}", "pool": name} for name in pools]
    if target == "haproxy":
        routes.append({"path": "/class/first", "pool": "class", "priority": 0})
        routes.append({"path": "/class/last", "pool": "class", "priority": 9})
    by_model = [{"model": model, "pool": pool} for model, pool in MODELS.items()]
    inspect = {"body": "64KiB"}
    return {
        "pools": pools,
        "listeners": {
            "default": {"bind": "*:8080", "routes": routes, "inspect": inspect},
            "models": {"bind": "*:8081", "routes": by_model, "inspect": inspect},
        },
    }


@pytest.fixture(scope="module")
def running(module_proxy: Proxy, running_mocks: list[MockBox], rig: Rig) -> Iterator[Running]:
    """One container for all tests of a balancer."""
    renewed(running_mocks)
    rendered = files(fleet_for(module_proxy.target, pools_of(module_proxy.target)), module_proxy)
    with ExitStack() as stack:
        box = rig.balancer(module_proxy.target, module_proxy.image, rendered)
        stack.callback(box.remove)
        yield Running(module_proxy, box)


def chat(system: object, user: str = "Go on.", **more: object) -> dict[str, object]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"model": "small", "messages": messages, **more}


def settled(running: Running, pool: str, bodies: list[Any]) -> set[str]:
    """Return which servers got these, one after the other, each when the one before is over."""
    found = set()
    for body in bodies:
        found.add(running.server(pool, body))
        time.sleep(0.02)
    return found


def parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def paced(
    count: int, pace: str, prompt: str = "Hello", tokens: int = 2, at_s: float = 0
) -> list[load.Planned]:
    return [
        load.Planned(at_s + index * 0.001, tokens, prompt, headers={PACE: pace}) for index in range(count)
    ]


def even(shares: Counter[str], least: float = 0.4) -> None:
    """Check that every server got a fair part of what came: `least` of its share."""
    assert set(shares) == set(SERVERS), shares
    assert min(shares.values()) >= least * sum(shares.values()) / len(SERVERS), shares


# sessions


def sessions(running: Running, pool: str) -> dict[str, str]:
    """Return which server each key got."""

    def headers(key: str) -> dict[str, str]:
        return {"X-Session-Id": key} if pool == "header" else {"Cookie": f"a=b; chat={key}; c=d"}

    found = {}
    for key in (f"key-{number}" for number in range(KEYS)):
        found[key] = running.server(pool, None, **headers(key))
        time.sleep(0.005)  # until the balancer, too, knows that it is over
    return found


@pytest.mark.parametrize("pool", ["header", "cookie"])
def test_a_session_stays_and_sessions_spread(running: Running, pool: str) -> None:
    first = sessions(running, pool)
    second = sessions(running, pool)
    assert sum(first[key] != second[key] for key in first) <= FEW
    even(Counter(first.values()))


@pytest.mark.parametrize("pool", ["header", "cookie"])
def test_without_a_session_requests_spread(running: Running, pool: str) -> None:
    # HAProxy walks along its ring then, whose points are as uneven as any others.
    even(Counter(running.server(pool) for _ in range(80)))


def test_a_server_that_goes_moves_only_its_own_sessions(running: Running) -> None:
    before = sessions(running, "header")
    target = running.proxy.target
    pools = pools_of(target)
    pools["header"]["servers"] = ["gpu-0:8000", "gpu-1:8000", "gpu-3:8000"]
    running.box.reload(files(fleet_for(target, pools), running.proxy))
    try:
        after = sessions(running, "header")
    finally:
        running.box.reload(files(fleet_for(target, pools_of(target)), running.proxy))
    moved = {key for key in before if before[key] != after[key]}
    gone = {key for key, server in before.items() if server == "gpu-2"}
    assert gone <= moved
    assert len(moved - gone) <= FEW, moved - gone
    assert len({after[key] for key in moved}) > 1, "they went to one server alone"


def test_one_session_of_many_requests_at_once(running: Running) -> None:
    """HAProxy bounds what a session's server gets; NGINX holds on to the server."""
    one = [plan._replace(headers={PACE: "0.6,0", "X-Session-Id": "one"}) for plan in paced(32, "")]
    shares = Counter(result.server for result in running.burst("header", one))
    if running.proxy.target == "nginx":
        assert list(shares.values()) == [32]
    else:
        assert len(shares) > 1, shares
        assert max(shares.values()) <= 1.5 * 32 / len(SERVERS) + 2, shares


# prefixes


@pytest.mark.parametrize("pool", ["prefix", "begin", "capped"])
def test_prompts_that_begin_alike_share_a_server(running: Running, pool: str) -> None:
    system = "You are a patient teacher of slow tokens. " * 40
    assert len(settled(running, pool, [chat(system, f"Question {n}") for n in range(12)])) == 1


@pytest.mark.parametrize("pool", ["prefix", "begin"])
def test_prompts_that_begin_otherwise_spread(running: Running, pool: str) -> None:
    even(Counter(running.server(pool, chat(f"You are teacher {n}. " * 20)) for n in range(KEYS)))


FORMS: dict[str, Any] = {
    "text": lambda text, user: chat(text, user, stream=False),
    "parts": lambda text, user: chat(parts(text), user),
    "anthropic": lambda text, user: {"system": text, "messages": [{"role": "user", "content": user}]},
    "escapes": lambda text, user: chat(f'{text} "quoted" \u00e9 \\ / \n', user),
    "completions": lambda text, _user: {"model": "small", "prompt": text * 40},
}


@pytest.mark.parametrize("form", FORMS)
def test_prefixes_in_every_form(running: Running, form: str) -> None:
    make = FORMS[form]
    same = [make("You are kind. " * 9, f"Question {number}") for number in range(6)]
    assert len(settled(running, "prefix", same)) == 1
    others = {running.server("prefix", make(f"You are kind {n}. " * 9, "?")) for n in range(24)}
    assert others == set(SERVERS)


def test_a_body_in_chunks_goes_where_the_whole_one_goes(running: Running) -> None:
    for number in range(6):
        body = json.dumps(chat(f"You are number {number}. " * 50))
        pieces = [body[:100].encode(), body[100:700].encode(), body[700:].encode()]
        assert len(settled(running, "prefix", [pieces, body])) == 1


def test_no_body_is_refused_for_its_prefix(running: Running) -> None:
    """Longer than what is looked at, no JSON, or none at all: answered by some server."""
    assert running.server("prefix", chat("You are long. " * 20_000)) in SERVERS
    assert running.server("prefix", "{not JSON") in SERVERS
    assert running.server("prefix", '{"messages": []}') in SERVERS
    even(Counter(running.server("prefix", "") for _ in range(80)))


def test_a_hot_prefix_is_served_whole(running: Running) -> None:
    """Every request alike: they spread over all servers, on NGINX with caps alone; nowhere is one refused."""
    prompt = "You are hot. " * 50
    hot = paced(100, "1.0,0", prompt=prompt)
    for pool in ("prefix", "capped"):
        [first] = running.burst(pool, paced(1, "0.1,0", prompt=prompt))
        shares = Counter(result.server for result in running.burst(pool, hot))
        if pool == "capped":
            # HAProxy's threads may look at the same moment.
            assert max(shares.values()) <= 28 + 4, shares
        if pool == "capped" or running.proxy.target == "haproxy":
            assert set(shares) == set(SERVERS), (pool, shares)
            assert shares[str(first.server)] >= 100 / len(SERVERS) - 4, shares
        if running.proxy.target == "haproxy":
            assert max(shares.values()) <= 1.25 * 100 / len(SERVERS) + 4, (pool, shares)


# models


@pytest.mark.parametrize(
    ("model", "servers"),
    [("small", {"gpu-0", "gpu-1"}), ("llama-3-8b", {"gpu-2", "gpu-3"}), ("llama-", {"gpu-2", "gpu-3"})],
)
def test_the_model_decides(running: Running, model: str, servers: set[str]) -> None:
    seen = set()
    for body in ({"model": model}, {"messages": [{"content": '"model":"other"'}], "model": model}) * 4:
        answer = running.ask("", body, 8081)
        assert answer.status == 200, answer
        seen.add(answer.server)
    assert seen == servers


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "smaller"}, 404, "model_not_found"),
        ({"model": "my-llama-3"}, 404, "model_not_found"),
        ({"messages": [{"content": "x" * 100_000}], "model": "small"}, 413, None),
    ],
    ids=["unknown", "no-glob", "too-long"],
)
def test_a_model_that_is_unknown_or_out_of_sight(
    running: Running, body: object, status: int, code: str | None
) -> None:
    answer = running.ask("", body, 8081)
    assert answer.status == status
    error = json.loads(answer.body)["error"]
    assert {"message", "type", "param", "code"} <= set(error)
    assert code in {None, error["code"]}


# pack, and the order of waiting


on_queueing = pytest.mark.parametrize("module_proxy", QUEUEING, ids=str, scope="module")


@on_queueing
def test_pack_fills_in_order(running: Running) -> None:
    shares = Counter(result.server for result in running.burst("pack", paced(36, "1.0,0")))
    assert shares == {"gpu-0": 16, "gpu-1": 16, "gpu-2": 4}


@on_queueing
def test_what_is_short_overtakes_and_what_is_long_does_not_starve(
    running: Running, running_mocks: list[MockBox]
) -> None:
    """A request for 150 tokens lets those for two pass that come within 1.5 s of it, and no later ones."""
    running_mocks[0].reset()
    planned = [
        *paced(1, "0.4,0", tokens=1),
        *paced(1, "0.1,0", tokens=150, prompt="long", at_s=0.1),
        *paced(25, "0.1,0", prompt="early", at_s=0.2),
        *paced(10, "0.1,0", prompt="late", at_s=2.4),
    ]
    results = running.burst("short", planned)
    long = results[1].first_s or 0
    early, late = results[2:27], results[27:]
    assert all((result.first_s or 0) < long for result in early)
    assert all((result.first_s or 0) > long for result in late)


@on_queueing
def test_priority_classes_are_served_in_order(running: Running) -> None:
    async def both() -> tuple[list[load.Result], list[load.Result]]:
        def run(path: str, planned: list[load.Planned]) -> Any:
            return load.run(f"{running.box.url}/class/{path}", planned, most_late_s=1.0)

        busy = asyncio.create_task(run("first", paced(1, "0.5,0")))
        last = asyncio.create_task(run("last", paced(6, "0.1,0", at_s=0.1)))
        await asyncio.sleep(0.2)
        first = await run("first", paced(6, "0.1,0"))
        await busy
        # The times of `first` are 0.2 s behind.
        return first, await last

    first, last = asyncio.run(both())
    assert all(result.ok for result in (*first, *last))
    assert max(result.ended_s for result in first) + 0.2 <= min(result.ended_s for result in last) + 0.05


@pytest.mark.parametrize(
    "module_proxy",
    [proxy for proxy in PROXIES if proxy.target == "nginx"],
    ids=str,
    scope="module",
)
def test_nginx_names_what_to_use_instead(module_proxy: Proxy) -> None:
    for strategy in ("pack", "kv_cache"):
        text = json.dumps(
            {"pools": {"chat": {"engine": "vllm", "strategy": strategy, "servers": "gpu-0:8000"}}}
        )
        loaded = load_fleet(
            [Source("fleet.yaml", text)],
            environ={}, targets=("nginx",), versions={"nginx": module_proxy.version},
        )  # fmt: skip
        [problem] = [one for one in loaded.problems if one.is_error and strategy in one.message]
        assert "least_conn" in problem.hint
        assert "HAProxy" in problem.hint
