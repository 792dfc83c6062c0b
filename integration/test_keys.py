"""What ties a request to a server or a pool, beside headers and prefixes: query, client, address, lengths."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import renewed
from integration.fleets import SERVERS, THREE, Proxy, files
from integration.test_strategies import FEW, Running, even
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig

TRIES = THREE

pytestmark = pytest.mark.slow

CLIENTS = 24
SECRETS = {f"KEY_{number}": f"sk-client-{number}-0123456789abcdef" for number in range(CLIENTS)}
KEYS = 60
ALL = "gpu-[0-3]:8000"
POOLS: dict[str, dict[str, Any]] = {
    "query": {"strategy": {"name": "session", "query": "chat"}, "servers": ALL},
    "client": {"strategy": {"name": "session", "client": True}, "servers": ALL},
    "address": {"strategy": {"name": "session", "ip": True}, "servers": ALL},
    "usual": {"servers": "gpu-[0-1]:8000", "models": ["small", "llama-*"]},
    "long": {"servers": "gpu-2:8000", "models": ["long"]},
    "wordy": {"servers": "gpu-3:8000", "models": ["wordy"], "standby": True},
}
OPEN, LENGTHS, TOKENS, MODELS = 8080, 8081, 8082, 8083
INSPECT = {"body": "64KiB"}
FLEET: dict[str, Any] = {
    "pools": {name: {"engine": "vllm", **pool} for name, pool in POOLS.items()},
    "clients": {f"client-{number}": {"key": f"env:KEY_{number}"} for number in range(CLIENTS)},
    "listeners": {
        "open": {
            "bind": f"*:{OPEN}",
            "auth": "none",
            # Whoever comes from the tests' own network says for whom it asks.
            "trusted_proxies": ["10.0.0.0/8"],
            "routes": [{"path": "/query", "pool": "query"}, {"path": "/address", "pool": "address"}],
        },
        "lengths": {
            "bind": f"*:{LENGTHS}",
            "auth": {"clients": "all"},
            "inspect": INSPECT,
            "routes": [
                {"path": "/client", "pool": "client"},
                {"prompt_over": "32KiB", "pool": "long"},
                {"pool": "usual"},
            ],
        },
        "tokens": {
            "bind": f"*:{TOKENS}",
            "auth": "none",
            "inspect": INSPECT,
            "routes": [{"max_tokens_over": 1000, "pool": "wordy"}, {"pool": "usual"}],
        },
        "models": {
            "bind": f"*:{MODELS}",
            "auth": "none",
            "routes": [{"model": ["small", "llama-*"], "pool": "usual"}, {"model": "long", "pool": "long"}],
        },
    },
}
USUAL = {"gpu-0", "gpu-1"}


@pytest.fixture(scope="module")
def running(module_proxy: Proxy, running_mocks: list[MockBox], rig: Rig) -> Iterator[Running]:
    """One container for all tests of a balancer."""
    renewed(running_mocks)
    with ExitStack() as stack:
        rendered = files(FLEET, module_proxy, SECRETS)
        box = rig.balancer(module_proxy.target, module_proxy.image, rendered)
        stack.callback(box.remove)
        yield Running(module_proxy, box)


def bearer(number: int) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[f'KEY_{number}']}"}


def server(running: Running, path: str, port: int = OPEN, headers: Any = None, body: Any = None) -> str:
    answer = running.ask(path, body, port, headers)
    assert answer.status == 200, answer
    assert answer.server is not None
    return answer.server


def by_query(running: Running, number: int) -> str:
    return with_query(running, f"chat=key-{number}")


def with_query(running: Running, query: str) -> str:
    answer = running.whole(f"/query?a=b&{query}&c=d", OPEN)
    assert answer.status == 200, answer
    assert answer.server is not None
    return answer.server


def by_client(running: Running, number: int) -> str:
    return server(running, "/client", LENGTHS, bearer(number % CLIENTS))


def by_address(running: Running, number: int) -> str:
    return server(running, "/address", headers={"X-Forwarded-For": f"192.0.2.{number}"})


@pytest.mark.parametrize(
    ("ask", "keys"),
    [(by_query, KEYS), (by_client, CLIENTS), (by_address, KEYS)],
    ids=["query", "client", "address"],
)
def test_a_session_stays_and_sessions_spread(
    running: Running, ask: Callable[[Running, int], str], keys: int
) -> None:
    def spread() -> list[str]:
        return [ask(running, number) for number in range(keys)]

    eventually(
        lambda: set(spread()) == set(SERVERS), 15, "keys on each server, once all are known to be well"
    )
    homes = zip(spread(), spread(), spread(), strict=True)
    assert sum(len(set(home)) == 3 for home in homes) <= FEW, "a busy home lets one go now and then"


def test_without_the_parameter_requests_spread(running: Running) -> None:
    even(Counter(with_query(running, "chats=key") for _ in range(80)))


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunks"])
@pytest.mark.parametrize(
    ("size", "servers"), [(100, USUAL), (30_000, USUAL), (40_000, {"gpu-2"}), (200_000, {"gpu-2"})]
)
def test_the_length_of_a_prompt_decides(
    running: Running, size: int, servers: set[str], chunked: bool
) -> None:
    """Also beyond what is looked at; where that cannot be told, a 4xx says so."""
    text = json.dumps({"model": "small", "prompt": "x" * size}).encode()
    body: Any = [text[:50], text[50:]] if chunked else text.decode()
    answer = running.ask("", body, LENGTHS, bearer(0))
    if answer.status == 200:
        assert answer.server in servers
    else:
        assert chunked
        assert size > 65_536
        assert 400 <= answer.status < 500, answer


@pytest.mark.parametrize(
    ("body", "servers"),
    [
        ({"prompt": "a"}, USUAL),
        ({"prompt": "a", "max_tokens": 1000}, USUAL),
        ({"prompt": "a", "max_tokens": 1001}, {"gpu-3"}),
        ({"messages": [], "max_completion_tokens": 4000}, {"gpu-3"}),
        ({"messages": [{"content": '"max_tokens": 5000'}], "max_tokens": 7}, USUAL),
    ],
    ids=["none", "as many", "more", "other name", "in a text"],
)
def test_the_most_tokens_decide(running: Running, body: dict[str, Any], servers: set[str]) -> None:
    assert {server(running, "", TOKENS, body=body) for _ in range(4)} <= servers


def test_tokens_that_cannot_be_seen_lead_nowhere(running: Running) -> None:
    answer = running.ask("", {"prompt": "x" * 100_000, "max_tokens": 2000}, TOKENS)
    assert answer.status == 413, answer


def test_models_are_listed_from_the_fleet(running: Running) -> None:
    """Names that a route takes to their pool; globs are no names."""
    answer = running.whole("/v1/models", MODELS)
    assert answer.status == 200
    assert answer.server is None
    listed = json.loads(answer.body)
    assert listed["object"] == "list"
    assert sorted(model["id"] for model in listed["data"]) == ["long", "small"]
