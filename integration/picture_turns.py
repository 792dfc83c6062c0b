"""The picture of the page about agents: ``python -m integration.picture_turns FILE.svg``.

Runs the same agents through HAProxy with each of two strategies, in front of four mock GPU servers, and draws
each conversation as a line, on which each turn has the colour of the server that answered it. Needs Docker.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from integration.bench_loads import ENGINE
from integration.bench_sessions import Simulated, moved, turn_of
from integration.bench_strategies import ours, servers
from integration.conftest import renewed
from lbgen.lab import load
from lbgen.lab.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.lab.boxes import MockBox

STRATEGIES = ("least_conn", "prefix")
SERVERS, SPEED = 4, 2.0
AGENTS = "agents:sessions=24,turns=10"
REQUESTS = 24 * 10
GENERATION = "trixie"

WIDTH, LEFT, RIGHT, HEAD, ROW, FOOT = 760, 46, 16, 58, 9, 46
STYLE = """
svg { --ink: #1c2430; --paper: #fff; --line: #d8dee6; --faint: #5b6777;
  --c0: #0b62c4; --c1: #c2410c; --c2: #15803d; --c3: #7e22ce; }
@media (prefers-color-scheme: dark) { svg {
  --ink: #e6ebf2; --paper: #12161c; --line: #2c3541; --faint: #9aa7b8;
  --c0: #6cb2ff; --c1: #ff9a62; --c2: #5fd38a; --c3: #c79bff; } }
text { fill: var(--ink); font: 11px system-ui, sans-serif; } .title { font-size: 14px; font-weight: 600; }
.faint { fill: var(--faint); } .paper { fill: var(--paper); } .row { stroke: var(--line); }
.s0 { fill: var(--c0); } .s1 { fill: var(--c1); } .s2 { fill: var(--c2); } .s3 { fill: var(--c3); }
"""


class Taken(NamedTuple):
    """A run with one strategy."""

    strategy: str
    results: list[load.Result]
    hits: float

    @property
    def words(self) -> str:
        """What is to be seen, in figures."""
        late = load.percentile([(one.first_s or 0) - one.planned.at_s for one in self.results], 0.99) * SPEED
        return (
            f"{100 * moved(self.results):.0f} % of the turns changed servers, caches held "
            f"{100 * self.hits:.0f} % of the prompts, P99 of the first token: {late:.1f} s"
        )


def taken(rig: Rig, mocks: Sequence[MockBox], strategy: str) -> Taken:
    """Run the agents once."""
    renewed(list(mocks), **(ENGINE | {"chunk_s": 0.5, "speed": SPEED}))
    with ours(rig, GENERATION, strategy, "haproxy", strategy=strategy).start(mocks) as running:
        script = Simulated(AGENTS).script(0, REQUESTS, SPEED)
        results = asyncio.run(load.run(running.url, script.planned, follow=script.follow))
        states = [mock.state() for mock in mocks]
    prompts = sum(state["finished_prompt_tokens"] for state in states)
    return Taken(strategy, results, sum(state["hit_tokens"] for state in states) / prompts)


def picture(runs: Sequence[Taken]) -> str:
    """Return the runs as SVG, on one scale of time."""
    whole_s = max(result.ended_s for run in runs for result in run.results)
    panel = HEAD + ROW * len({turn_of(one) for one in runs[0].results}) + FOOT
    size = f"{WIDTH} {panel * len(runs)}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" aria-labelledby="title">',
        '<title id="title">Which server answered each turn of 24 agents</title>',
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%" rx="8"/>',
    ]
    for number, run in enumerate(runs):
        lines += [f'<g transform="translate(0 {number * panel})">', *_panel(run, whole_s, panel), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _panel(run: Taken, whole_s: float, height: int) -> list[str]:
    scale = (WIDTH - LEFT - RIGHT) / whole_s
    sessions = list(dict.fromkeys(map(turn_of, sorted(run.results, key=lambda one: one.started_s))))
    names = sorted({one.server or "" for one in run.results})
    lines = [
        f'<text class="title" x="{LEFT}" y="24">{run.strategy}</text>',
        f'<text class="faint" x="{LEFT}" y="42">{run.words}</text>',
    ]
    for row in range(len(sessions)):
        y = HEAD + ROW * row + 3.5
        lines.append(f'<line class="row" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
    for one in run.results:
        x, width = LEFT + one.started_s * scale, max(1.5, (one.ended_s - one.started_s) * scale - 0.5)
        y = HEAD + ROW * sessions.index(turn_of(one))
        style = f"s{names.index(one.server or '')}"
        lines.append(f'<rect class="{style}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="7"/>')
    foot = height - FOOT + 22
    for number, name in enumerate(names):
        x = LEFT + 90 * number
        lines.append(f'<rect class="s{number}" x="{x}" y="{foot - 8}" width="18" height="7"/>')
        lines.append(f'<text x="{x + 24}" y="{foot}">{name}</text>')
    end = f"{whole_s * SPEED:.0f} s"
    lines.append(f'<text class="faint" x="{WIDTH - RIGHT}" y="{foot}" text-anchor="end">{end}</text>')
    return lines


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.picture_turns", description=__doc__)
    line.add_argument("file", type=Path)
    chosen = line.parse_args()
    with Rig() as rig:
        mocks = servers(rig)[:SERVERS]
        chosen.file.write_text(picture([taken(rig, mocks, name) for name in STRATEGIES]))


if __name__ == "__main__":
    main()
