"""Predictions of a calibrated simulator, and what two real servers then do.

``python -m integration.real_engines.predicted`` measures one server with `lbgen calibrate`, predicts for two
of them with `lbgen simulate --profile`, and only then sends the same requests through HAProxy. Each server
has a core of its own in both, or the second would take half of what the first was measured with. Writes the
figures into docs/engines-tried.md, misses and all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from integration.real_engines import page
from integration.real_engines.__main__ import CACHE
from integration.real_engines.engines import KINDS, MODEL, SLOTS, pair
from integration.real_engines.fronts import ROOT, Front, front
from integration.real_engines.through import CHAT
from lbgen.lab.load import Planned, Result, percentile, run
from lbgen.simulate.load.named import workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from integration.real_engines.engines import Engine
    from lbgen.simulate.load.request import Request

LOADS = (0.5, 0.8)
STRATEGIES = ("round_robin", "least_conn", "prefix")
FIGURES = (("ttft_s", "p50"), ("ttft_s", "p99"), ("e2e_s", "p50"), ("e2e_s", "p99"))
WORKLOAD = "tenants:prefixes=7,prefix_tokens=512,prompt=100,output=40"
REQUESTS, SEED = 300, 1
MOST_LATE_S = 1.0
AROUND = len("<|im_start|>\n<|im_end|>\n")
BEGUN = len("<|im_start|>assistant\n")
"""What the template of the tiny models puts around a message, beside its role, and before the answer."""


class Case(NamedTuple):
    """A strategy at a load, predicted and measured: the figures of `FIGURES`, in seconds."""

    strategy: str
    load: float
    rate_per_s: float
    predicted: tuple[float, ...]
    measured: tuple[float, ...] = ()


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.real_engines.predicted", description=__doc__)
    line.add_argument("engine", nargs="?", choices=KINDS, default="vllm")
    line.add_argument("--folder", type=Path, default=CACHE, help="where engines are installed (%(default)s)")
    line.add_argument("--page", type=Path, default=ROOT / "docs/engines-tried.md", help="what is written")
    chosen = line.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    kind = KINDS[chosen.engine](chosen.folder.resolve())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lbgen-", dir="/tmp")))
        folder.chmod(0o755)
        engines = stack.enter_context(pair(kind, folder, apart=True))
        for one in engines:
            one.wait()
        profile = calibrated(engines[0], folder)
        balancer = stack.enter_context(front("haproxy", engines, folder))
        cases = [one for strategy in STRATEGIES for one in predicted(balancer, strategy, profile)]
        text = profile.read_text()
        found = [one._replace(measured=asyncio.run(measured(balancer, one))) for one in cases]
    what = page.Tried(kind.preset, kind.version, kind.origin, str(datetime.now(UTC).date()), {})
    page.write_predicted(chosen.page, what, list(_lines(found, text)))


def calibrated(engine: Engine, folder: Path) -> Path:
    """Return a profile of one server."""
    profile = folder / "measured.yaml"
    words = [
        "--max-in-flight",
        str(2 * SLOTS),
        "--prompt-tokens",
        "2048",
        "--time-limit",
        "3m",
        "-o",
        str(profile),
    ]
    _lbgen("calibrate", f"http://127.0.0.1:{engine.port}", *words)
    print(profile.read_text(), flush=True)
    return profile


def predicted(balancer: Front, strategy: str, profile: Path) -> Iterator[Case]:
    """Yield what the simulator says of a strategy at each load."""
    loads = [word for load in LOADS for word in ("--load", str(load))]
    words = [
        "-t", balancer.target, "--pool", strategy, "--strategy", strategy, "--workload", WORKLOAD,
        "--requests", str(REQUESTS), "--seed", str(SEED), "--profile", str(profile), "--format", "json",
    ]  # fmt: skip
    said = json.loads(_lbgen("simulate", str(balancer.folder / "fleet.yaml"), *words, *loads))
    for row in said["results"]:
        print(strategy, row["load"], [row[name][share] for name, share in FIGURES], flush=True)
        yield Case(
            strategy, row["load"], row["rate_per_s"], tuple(row[name][share] for name, share in FIGURES)
        )


async def measured(balancer: Front, case: Case) -> tuple[float, ...]:
    """Return the same figures of the same requests, sent to the real servers."""
    run_of = str(uuid.uuid4())  # no prompt of one run is in the cache of another
    requests = workload(WORKLOAD).requests(SEED, case.rate_per_s, REQUESTS)
    planned = [_planned(one, f"{run_of} {number}", run_of) for number, one in enumerate(requests)]
    url = f"http://127.0.0.1:{balancer.ports[case.strategy]}"
    results = await run(url, planned, most_late_s=MOST_LATE_S)
    lost = [(one.status, one.error) for one in results if not one.ok]
    assert not lost, f"{len(lost)} of {len(results)} failed: {lost[:5]}"
    found = tuple(_figure(results, name, float(share[1:]) / 100) for name, share in FIGURES)
    print(case.strategy, case.load, "measured", found, flush=True)
    return found


def _planned(request: Request, number: str, run_of: str) -> Planned:
    """Return a request as messages with as many bytes as tokens, which is the same for the tiny models."""
    last = request.parts[-1]
    messages = [
        {
            "role": part.role,
            "content": _text(
                f"{run_of} {part.identity}" if part.identity else number,
                part.tokens - AROUND - len(part.role) - (BEGUN if part is last else 0),
            ),
        }
        for part in request.parts
    ]
    return Planned(
        request.arrived, request.output_tokens, messages, model=MODEL, path=CHAT,
        fields={"temperature": 0, "ignore_eos": True},
    )  # fmt: skip


def _text(beginning: str, size: int) -> str:
    text = f"{beginning}: tell me about tokens, "
    return (text * (max(1, size) // len(text) + 1))[: max(1, size)]


def _figure(results: Sequence[Result], name: str, share: float) -> float:
    times = [
        one.latency_s if name == "e2e_s" else (one.first_s or one.ended_s) - one.planned.at_s
        for one in results
    ]
    return percentile(times, share)


def _lines(cases: Sequence[Case], profile: str) -> Iterator[str]:
    yield f"{REQUESTS} requests of `{WORKLOAD}`"
    yield "for each row, to two servers behind HAProxy. Predicted before they were sent, from what"
    yield "`lbgen calibrate` had measured of one server alone; in each cell the prediction, the measurement,"
    yield "and by how much the prediction is off."
    yield ""
    yield "| strategy | load | first token P50 | P99 | whole answer P50 | P99 |"
    yield "|---|---|---|---|---|---|"
    for one in cases:
        pairs = zip(one.predicted, one.measured, strict=True)
        cells = [f"{ours:.2f} s, {real:.2f} s, {100 * (ours / real - 1):+.0f} %" for ours, real in pairs]
        yield f"| {one.strategy} | {one.load} | {' | '.join(cells)} |"
    yield ""
    yield from (f"- {_ordered(cases, load, at)}" for load in LOADS for at in range(len(FIGURES)))
    yield ""
    yield from ("```yaml", profile.strip(), "```")


def _ordered(cases: Sequence[Case], load: float, at: int) -> str:
    """Say whether the strategies come in the predicted order."""
    here = [one for one in cases if one.load == load]
    ours = [one.strategy for one in sorted(here, key=lambda one: one.predicted[at])]
    real = [one.strategy for one in sorted(here, key=lambda one: one.measured[at])]
    title = " ".join(FIGURES[at]).replace("ttft_s", "first token").replace("e2e_s", "whole answer")
    same = "in the predicted order" if ours == real else f"not in the predicted order ({', '.join(ours)})"
    return f"load {load}, {title}: {', '.join(real)}, {same}"


def _lbgen(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(done.stderr, flush=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    main()
