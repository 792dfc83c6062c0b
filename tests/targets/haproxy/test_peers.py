"""What several balancers learn of prefixes, and whom they tell."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render

FLEET = """
balancers: {peers: {lb-a: 10.0.0.1:10000, lb-b: 10.0.0.2:10000}}
pools: {chat: {engine: vllm, strategy: STRATEGY, max_in_flight: 8, servers: "gpu-[0-3]:8000"}}
"""


def lines(own: str | None, strategy: str = "prefix", part: str = "all") -> list[str]:
    loaded = load(
        [Source("fleet.yaml", FLEET.replace("STRATEGY", strategy))], environ={}, targets=("haproxy",)
    )
    assert loaded.fleet is not None, loaded.problems
    fleet = loaded.fleet._replace(balancers=loaded.fleet.balancers._replace(own=own))
    return [line.strip() for line in render(fleet, "haproxy", part=part)[0].text.splitlines()]


@pytest.mark.parametrize("part", ["all", "http", "upstreams"])
def test_a_named_balancer_learns_and_tells_the_others(part: str) -> None:
    found = lines("lb-a", part=part)
    own, section = found.index("localpeer lb-a"), found.index("peers lbgen")
    assert own < section
    assert found[section + 1 : section + 3] == ["peer lb-a 10.0.0.1:10000", "peer lb-b 10.0.0.2:10000"]
    assert any(line.startswith("stick-table ") and " peers lbgen" in line for line in found)


def test_without_a_name_it_hashes() -> None:
    found = lines(None)
    assert not any("peer" in line.split() or line.startswith("stick") for line in found)
    assert "balance hash var(txn.lb_home_of)" in found


def test_where_nothing_is_learned_nobody_is_told() -> None:
    assert "peers lbgen" not in lines("lb-a", "least_conn")
