"""A client that is kept to some pools, where the route is known only once the body is."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

FLEET = """
pools: {{a: {{servers: ["10.0.0.1:80"]}}, b: {{servers: ["10.0.0.2:80"]}}}}
clients: {{one: {{key: "env:A", pools: [a]}}}}
listeners:
  l: {{auth: {{clients: all}}, routes: [{route}, {{pool: a}}]}}
"""


@pytest.mark.parametrize(
    ("route", "refused"),
    [("{model: m, pool: b}", True), ("{path: /b, pool: b}", False), ("{prompt_over: 1KiB, pool: b}", True)],
)
def test_its_pools_are_refused(route: str, refused: bool) -> None:
    problems = load([Source("f", FLEET.format(route=route))], environ={}, targets=("envoy",)).problems
    found = [one for one in problems if one.code == "target-refused" and "'pools'" in one.message]
    assert bool(found) is refused, problems
