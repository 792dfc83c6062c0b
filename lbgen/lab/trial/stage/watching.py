"""`lbgen agent` in front of the mock GPU servers, for `kv_cache`."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lbgen.lab.boxes import fetch
from lbgen.lab.mock.engine_metrics import NAMES
from lbgen.lab.problems import RigError
from lbgen.lab.trial.stage.running import LOOPBACK, free, kept, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lbgen.lab.trial.stage.mapping import Standing
    from lbgen.model import Pool
    from lbgen.units import Address

PLACE = ("agent_host", "agent_port")
"""Parameters that say where HAProxy finds the agent."""


@contextmanager
def agent(
    pool: Pool, servers: Mapping[str, Standing], folder: Path, host: str = LOOPBACK
) -> Iterator[Address]:
    """Run the agent for a pool; give the address where it answers HAProxy. Raises `RigError`."""
    address, status = free(2, host)
    fleet, output = folder / "agent.yaml", folder / "agent.log"
    fleet.write_text(json.dumps(fleet_of(pool, servers)), encoding="utf-8")
    words = [sys.executable, "-m", "lbgen", "agent", str(fleet), f"--listen={address}", f"--status={status}"]
    with kept(words, output) as process:
        wait_for(status, process, output, "lbgen agent does not run")
        yield address
        _expect_questions(status)


def _expect_questions(status: Address) -> None:
    """Raise `RigError` when nobody asked the agent: then what was measured is not the strategy."""
    page = fetch(f"http://{status}/metrics").body.decode()
    if not re.search(r"^lbgen_agent_answers_total [1-9]", page, re.MULTILINE):
        raise RigError(f"HAProxy did not reach lbgen agent on {status.host}: does a firewall keep it away?")


def engine_of(pool: Pool) -> str:
    """Return as which engine the mock GPU servers of a pool speak: its own, where they can."""
    return pool.engine if pool.engine in NAMES else "vllm"


def fleet_of(pool: Pool, servers: Mapping[str, Standing]) -> dict[str, Any]:
    """Return a fleet file for the agent: the pool, with the mock GPU servers' addresses."""
    given = {key: value for key, value in pool.strategy.parameters.items() if key not in PLACE}
    return {
        "pools": {
            pool.name: {
                "engine": engine_of(pool),
                "strategy": {"name": pool.strategy.name, **given},
                "servers": [
                    {"address": str(servers[one.name].control), "name": one.name, "weight": one.weight}
                    | ({"max_in_flight": cap} if (cap := pool.cap(one)) else {})
                    for one in pool.servers
                ],
            }
        },
    }
