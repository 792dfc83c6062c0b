"""`lbgen agent` in front of the mock GPU servers, for `kv_cache`."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lbgen.lab.trial.running import LOOPBACK, free, kept, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lbgen.lab.trial.mapping import Standing
    from lbgen.model import Pool
    from lbgen.units import Address

STRATEGY = "kv_cache"


@contextmanager
def agent(
    pool: Pool, servers: Mapping[str, Standing], folder: Path, host: str = LOOPBACK
) -> Iterator[Address]:
    """Run the agent for a pool; give the address where it answers HAProxy. Raises `RigError`."""
    (address,) = free(1, host)
    fleet, output = folder / "agent.yaml", folder / "agent.log"
    fleet.write_text(json.dumps(fleet_of(pool, servers)), encoding="utf-8")
    words = [sys.executable, "-m", "lbgen", "agent", str(fleet), "--listen", str(address)]
    with kept(words, output) as process:
        wait_for(address, process, output, "lbgen agent does not run")
        yield address


def fleet_of(pool: Pool, servers: Mapping[str, Standing]) -> dict[str, Any]:
    """Return a fleet file for the agent: the pool, with the mock GPU servers' addresses."""
    strategy: dict[str, object] = {"name": STRATEGY}
    if "drain_above" in pool.strategy.parameters:
        strategy["drain_above"] = pool.strategy.parameters["drain_above"]
    return {
        "pools": {
            pool.name: {
                "engine": pool.engine,
                "strategy": strategy,
                "servers": [{"address": str(one.control), "name": name} for name, one in servers.items()],
            }
        },
        "targets": {"haproxy": {}},
    }
