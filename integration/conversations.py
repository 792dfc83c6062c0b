"""Conversations under one system prompt, as the tests of homes send them."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from integration.fleets import SERVERS
from integration.test_strategies import chat as asking

if TYPE_CHECKING:
    from integration.test_strategies import Running

SHARED = "You are an agent with many tools. " * 200
NAMES: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"x-claude-code-session-id": "s"}),
    ({"prompt_cache_key": "k"}, {}),
    ({"messages": None, "instructions": SHARED, "input": "Hello"}, {}),
    ({"messages": None, "instructions": SHARED, "input": [{"role": "user", "content": "Hello"}]}, {}),
    ({"system": [{"type": "text", "text": SHARED}], "messages": [{"role": "user", "content": "Hi"}]}, {}),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, {}),
]
"""What of a body or of its headers names a conversation."""


def turns(running: Running, agent: str, begin: int, count: int) -> list[str]:
    """Go on with a conversation, each turn of which sends all before; return the servers."""
    messages: Any = asking(SHARED, f"I am {agent}.")["messages"]
    for turn in range(begin):
        messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": f"Step {turn}."}]
    found = []
    for turn in range(begin, begin + count):
        found.append(running.server("", {"model": "mock", "max_tokens": 1, "messages": messages}))
        messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": f"Step {turn}."}]
    return found


def expect_homes_on_all_servers(running: Running, agents: int) -> None:
    """Fail unless each of so many agents keeps its server, and none has more than half of them."""
    names = [f"agent-{time.monotonic()}-{number}" for number in range(agents)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda name: turns(running, name, 0, 4), names))
    assert all(len(set(servers)) == 1 for servers in found), found
    shares = Counter(servers[0] for servers in found)
    assert set(shares) == set(SERVERS)
    # Learned homes: the first ones of a prompt keep together until it is known to be everybody's.
    assert max(shares.values()) <= agents // 2, shares


def servers_of(running: Running, named: dict[str, Any], headers: dict[str, str], count: int) -> set[str]:
    """Return the servers of so many requests that one thing names and another tells apart."""
    body = {key: value for key, value in {**asking(SHARED), **named}.items() if value is not None}
    changing = [{**body, "metadata": {"turn": turn}} for turn in range(count)]
    return {running.server("", one, **headers) for one in changing}
