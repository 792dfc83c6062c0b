"""What lbgen renders is read back as the pools and servers that it was rendered from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.whole import import_configurations

if TYPE_CHECKING:
    from lbgen.model import Fleet

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted([*GOLDEN.glob("*/nginx/nginx.conf"), *GOLDEN.glob("*/haproxy/haproxy.cfg")])


def fleet_of(text: str) -> Fleet:
    loaded = load([Source("fleet.yaml", text)], environ={})
    assert [problem for problem in loaded.problems if problem.is_error] == []
    assert loaded.fleet is not None
    return loaded.fleet


def servers(fleet: Fleet, target: str) -> dict[str, set[tuple[object, ...]]]:
    """Return servers by pool, as far as a target's file can tell them apart."""
    pools = {}
    for pool in fleet.pools:
        most = max((server.weight for server in pool.servers), default=1)
        found = set()
        for server in pool.servers:
            weight = server.weight / most  # HAProxy's are scaled where agents change them
            state = "down" if target == "nginx" and server.state == "drain" else str(server.state)
            found.add((str(server.address), weight, server.backup, state))
        pools[pool.name] = found
    return pools


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_pools_and_servers_come_back(path: Path) -> None:
    original = fleet_of((path.parents[1] / "fleet.yaml").read_text())
    found = import_configurations([str(path)])
    assert [problem.code for problem in found.problems] == ["rendered-file"]
    target = path.parent.name
    again = servers(fleet_of(found.text(comments=True)), target)
    assert {name: again[name] for name in again if again[name]} == servers(original, target)


def test_there_are_files_of_both_targets() -> None:
    assert {path.name for path in FILES} == {"nginx.conf", "haproxy.cfg"}
