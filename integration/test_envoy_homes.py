"""What becomes of conversations on Envoy when a server of theirs is drained, comes back, or is added."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from integration.envoy_site import MockServer, Site, mocks, pool, running
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

TALKS = 400
FEW = 40
"""Enough to see that something changed."""


@pytest.fixture
def servers() -> Iterator[list[MockServer]]:
    with mocks(4) as found:
        yield found


def fleet(servers: list[MockServer], drained: str = "") -> dict[str, Any]:
    """Return a fleet of agents; `drained` names a server that is to get nobody."""
    chat = pool(servers, strategy={"name": "prefix", "key": "conversation"})
    for server in chat["servers"]:
        server["state"] = "drain" if server["name"] == drained else "up"
    return {"pools": {"chat": chat}}


def homes(site: Site, count: int = TALKS) -> dict[int, str]:
    """Return which server each conversation has; all are answered."""
    answers = {}
    for number in range(count):
        said = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": f"{number}"}]
        answers[number] = site.post("/v1/chat/completions", {"model": "m", "messages": said})
    assert {answer.status for answer in answers.values()} == {200}
    return {number: answer.headers["x-mock"] for number, answer in answers.items()}


def busiest(found: Mapping[int, str]) -> float:
    """Return how many times the average the busiest server has."""
    shares = Counter(found.values())
    return max(shares.values()) * len(shares) / shares.total()


def test_a_home_that_is_drained_keeps_nobody_and_has_its_own_again_when_it_is_back(
    servers: list[MockServer], tmp_path: Path
) -> None:
    with running(fleet(servers), tmp_path) as site:
        before = homes(site)
        assert busiest(before) <= 1.3
        site.write(fleet(servers, drained="s0"))
        eventually(lambda: "s0" not in homes(site, FEW).values(), 20, "its conversations move")
        after = homes(site)
        assert set(after.values()) == {"s1", "s2", "s3"}
        assert busiest(after) <= 1.3, Counter(after.values())
        # A ring is as long as before: each server has more points on it, which take a few from others.
        stayed = [number for number, home in before.items() if home != "s0" and after[number] == home]
        assert len(stayed) >= 0.75 * sum(home != "s0" for home in before.values())
        site.write(fleet(servers))
        eventually(lambda: "s0" in homes(site, FEW).values(), 20, "it is back")
        assert homes(site) == before


def test_a_server_that_is_added_gets_its_share_and_the_rest_stays(
    servers: list[MockServer], tmp_path: Path
) -> None:
    with running(fleet(servers[:3]), tmp_path) as site:
        before = homes(site)
        assert busiest(before) <= 1.3
        site.write(fleet(servers))
        eventually(lambda: "s3" in homes(site, FEW).values(), 20, "its conversations move")
        after = homes(site)
        assert all(after[number] in {home, "s3"} for number, home in before.items())
        assert busiest(after) <= 1.3
