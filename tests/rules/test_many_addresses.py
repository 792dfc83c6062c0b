"""Rules about addresses do not compare thousands of listeners and servers each with each."""

from __future__ import annotations

from collections import Counter

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.rules.edge import ports
from lbgen.fleet.text.source import Source

MANY = 400


def fleet(binds):
    lines = ["pools:", *(f"  p{n}: {{servers: ['10.0.{n // 200}.{n % 200}:8000']}}" for n in range(MANY))]
    lines += ["listeners:"]
    lines += [
        f"  l{n}: {{bind: {bind}, hosts: [h{n}.example.org], auth: none, routes: [{{pool: p{n}}}]}}"
        for n, bind in enumerate(binds)
    ]
    loaded = load([Source("fleet.yaml", "\n".join(lines))], environ={})
    assert loaded.fleet is not None, loaded.problems[:3]
    return loaded.fleet


@pytest.mark.parametrize(
    "binds",
    [
        [f"'10.1.1.1:{20_000 + n}'" for n in range(MANY)],
        ["'*:20000'"] * MANY,
    ],
    ids=["ports", "hosts"],
)
def test_comparisons_grow_with_the_fleet(binds, monkeypatch):
    made = fleet(binds)
    compared = Counter()

    def counting(name):
        whole = getattr(ports, name)

        def counted(*args):
            compared[name] += 1
            return whole(*args)

        monkeypatch.setattr(ports, name, counted)

    for name in ("_reaches", "_clash"):
        counting(name)
    assert list(ports.loop(made)) == []
    assert list(ports.bind_clash(made)) == []
    assert compared["_reaches"] < 4 * MANY
    assert compared["_clash"] < 4 * MANY
