"""What the benches have in common: workloads, how one run of one is measured, and the table.

Times are model seconds, but for what a balancer itself costs. The first quarter of a run's requests, in which
caches fill, is left out of the times and counts among the hits.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from integration.bench_sessions import Script, Simulated, busiest, moved, named, turn_of
from integration.conftest import renewed
from lbgen.lab import load
from tests.arrivals import bimodal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from lbgen.lab.boxes import MockBox

LATE_S = 0.05
"""How late the driver may be in wall seconds (99th percentile), so that a run counts."""
TRIES = 3
"""How often a run is begun, where the driver was too late."""
SHORT_TOKENS = 100
PROBES = 80
"""Requests one after the other, by which is measured what a balancer adds."""
SHARES = 65_536
"""Docker's `cpu_shares`, of which a container usually has 1,024."""
CLOCK_TICKS = 100
"""In a second, in Linux's /proc."""


class Running(NamedTuple):
    """A balancer that serves."""

    url: str
    pids: Callable[[], Sequence[int]]
    """Its processes, as this machine counts them."""


class Subject(NamedTuple):
    """A row of a table: how to start a balancer before the mock GPU servers."""

    title: str
    on: str
    """What runs: ``nginx``, ``haproxy``, a router's name."""
    start: Callable[[Sequence[MockBox]], AbstractContextManager[Running]]
    header: str | None = None
    """In which clients name their session; None: they do not."""


def favoured(box: Shares) -> None:
    """Give a container as much of a busy machine as its kind allows.

    Routers from PyPI are processes of the machine itself: beside other people's containers these have more of
    it than a container that is one of many, and the comparison would be with that.
    """
    box.container.update(cpu_shares=SHARES)


class Shares(Protocol):
    """What runs in a container."""

    @property
    def container(self) -> Any: ...


class Workload(NamedTuple):
    """What is sent to which servers."""

    name: str
    title: str
    speed: float
    """Model seconds in a second."""
    mock: dict[str, object]
    plan: Callable[[int, int, float], Script]
    servers: int = 4
    requests: int | None = None
    """In a run; None: as many as were asked for."""
    figures: tuple[str, ...] = ()
    """The columns of its table; none: all that is not only for sessions."""


def unequal_answers(seed: int, count: int, speed: float) -> Script:
    """Return 70 % short and 30 % long answers at 95 % of what four servers of 32 slots can do."""
    return Script(bimodal(seed, 33.0, count, speed))


TENANTS = 24
SYSTEM_BYTES = 18_000
"""4,500 tokens."""
SKEW = 1.2
"""Zipf's exponent; with it round robin has the 0.82 hits of the first measurements by hand."""
RATE = 60.0


def tenants(seed: int, count: int, speed: float) -> Script:
    """Return questions under 24 system prompts."""
    dice = random.Random(seed)
    prompts = [f"Tenant {number} of {seed}. " * (SYSTEM_BYTES // 16) for number in range(TENANTS)]
    shares = [(rank + 1) ** -SKEW for rank in range(TENANTS)]
    now, planned = 0.0, []
    for number in range(count):
        now += dice.expovariate(RATE)
        tenant = dice.choices(range(TENANTS), shares)[0]
        tokens = dice.randint(20, 100) if dice.random() < 0.7 else dice.randint(100, 200)
        prompt = prompts[tenant][:SYSTEM_BYTES] + f" Question {number}. " * 20
        planned.append(
            load.Planned(now / speed, tokens, prompt, headers={"X-Session-Id": f"tenant-{tenant}"})
        )
    return Script(planned)


ANSWERS = Workload(
    "answers", "Short and long answers, four servers of 32 slots at 95 % load", 8.0,
    {"slots": 32, "profile": "seed"}, unequal_answers,
)  # fmt: skip
PREFIXES = Workload(
    "prefixes",
    "24 tenants with system prompts of 4,500 tokens, of which a server keeps a third beside its requests",
    5.0,
    # 36,000 for the prompts of eight tenants, and as much for what is being answered.
    {"slots": 64, "profile": "h100-8b", "kv_tokens": 72_000}, tenants,
)  # fmt: skip
ENGINE = {
    "slots": 32, "profile": "h100-8b", "kv_tokens": 384_000,
    "changes": {"step": 0.006, "per_request": 0.0002, "per_kv_token": 0.0, "per_prefill_token": 1 / 10_000,
                "batch_tokens": 2048},
}  # fmt: skip
"""A step of 6 ms and 0.2 ms a request, 10,000 prompt tokens a second, a prefix cache of 384,000 tokens."""
SMALL = ENGINE | {"kv_tokens": 10_000}
"""A prefix cache for a third of 24 prompts of 750 tokens beside what is being answered."""
SESSIONS = ("hits", "first_p50", "first_p99", "makespan", "busiest", "moved", "failed", "cpu_s")
SINGLE = ("hits", "first_p50", "first_p99", "whole_p99", "busiest", "failed", "cpu_s")
AGENTS = Workload(
    "agents", "64 agents with one system prompt of 4,500 tokens, 12 turns each, four servers",
    2.0, ENGINE, Simulated("agents").script, requests=64 * 12, figures=SESSIONS,
)  # fmt: skip
KINDS = Workload(
    "kinds", "256 agents of 4 kinds, 6 turns each, eight servers",
    2.0, ENGINE, Simulated("agents:sessions=256,systems=4,turns=6").script, 8, 256 * 6, SESSIONS,
)  # fmt: skip
COMPACTED = Workload(
    "compacted", "64 agents whose history is replaced by a summary at 100 KB, 24 turns each, four servers",
    2.0, ENGINE, Simulated("agents:turns=24,compact_tokens=25000").script, requests=64 * 24, figures=SESSIONS,
)  # fmt: skip
TENANTS_750 = Workload(
    "tenants", "Single questions under 24 system prompts of 750 tokens, of which a third fits a cache",
    4.0, SMALL, Simulated("tenants:skew=1.2", 40.0).script, figures=SINGLE,
)  # fmt: skip
HOT = Workload(
    "hot", "The same, where one tenant has 80 % of the questions",
    4.0, SMALL, Simulated("tenants:hot=0.8", 40.0).script, figures=SINGLE,
)  # fmt: skip
UNSHARED = Workload(
    "unshared", "Short and long answers to questions that have nothing in common",
    4.0, ENGINE, Simulated("bimodal", 16.0).script, figures=SINGLE,
)  # fmt: skip
WORKLOADS = {
    work.name: work for work in (ANSWERS, PREFIXES, AGENTS, KINDS, COMPACTED, TENANTS_750, HOT, UNSHARED)
}


class Figures(NamedTuple):
    """One run."""

    short_p99: float
    first_p50: float
    first_p99: float
    whole_p50: float
    whole_p99: float
    hits: float
    failed: float
    """Of 1,000 requests."""
    cpu_s: float
    """Seconds of processor time for 1,000 requests."""
    added_ms: float
    """Wall time that it adds to the first token of a prompt of 18 KB on idle servers, median."""
    makespan: float
    """From the first request to the end of the last answer."""
    busiest: float
    """Requests of the busiest server, as a multiple of the average."""
    moved: float
    """Share of turns that went to another server than the one before."""


TITLES = dict(
    zip(
        Figures._fields,
        (
            "short P99", "first token P50", "first token P99", "whole P50", "whole P99", "hits",
            "failed of 1,000", "CPU s per 1,000", "adds ms", "makespan", "busiest", "moved",
        ),
        strict=True,
    )
)  # fmt: skip


Rows = list[tuple[Subject, list[Figures]]]


class Bench(NamedTuple):
    """What all runs share."""

    mocks: list[MockBox]
    requests: int
    kept: Path | None
    """A file of finished runs, which are not done again."""

    def rows(self, subjects: Sequence[Subject], work: Workload, seeds: int) -> Rows:
        """Return each row with its runs; seed by seed, so that all rows see the same hours of a machine."""
        found: list[list[Figures]] = [[] for _ in subjects]
        for seed in range(seeds):
            for runs, subject in zip(found, subjects, strict=True):
                if run := self._run(subject, work, seed):
                    runs.append(run)
            print(f"{work.name}: seed {seed} done", file=sys.stderr, flush=True)
        return [(subject, runs) for subject, runs in zip(subjects, found, strict=True) if runs]

    def _run(self, subject: Subject, work: Workload, seed: int) -> Figures | None:
        key = f"{work.name} | {subject.title} | {subject.on} | {seed} | {work.requests or self.requests}"
        kept = _read(self.kept)
        if key in kept:
            return Figures(*kept[key])
        for _ in range(TRIES):
            try:
                found = self._measure(subject, work, seed)
            except load.CouldNotKeepUpError as error:
                print(f"{key}: once more, {error}", file=sys.stderr, flush=True)
            else:
                if self.kept:
                    with self.kept.open("a") as file:
                        print(json.dumps({"run": key, "figures": found}), file=file)
                return found
        return None

    def _measure(self, subject: Subject, work: Workload, seed: int) -> Figures:
        """Run one workload through a balancer that knows nothing yet."""
        fresh = {"kv_tokens": None, "chunk_s": 0.5, "changes": {}} | work.mock
        mocks = self.mocks[: work.servers]
        renewed(mocks, **(fresh | {"speed": work.speed}))
        with subject.start(mocks) as running:
            script = work.plan(seed, work.requests or self.requests, work.speed)
            if subject.header:
                script = named(script, subject.header)
            before = cpu_seconds(running.pids())
            results = asyncio.run(
                load.run(running.url, script.planned, most_late_s=LATE_S, follow=script.follow)
            )
            cpu_s = 1000 * (cpu_seconds(running.pids()) - before) / len(results)
            for result in results:
                result.server = result.server or server_at_the_end(result.tail)
            states = [mock.state() for mock in mocks]
            hits = sum(state["hit_tokens"] for state in states) / max(
                1, sum(state["finished_prompt_tokens"] for state in states)
            )
            added_ms = 0.0
            if "added_ms" in columns(work):
                renewed(mocks, **(fresh | {"speed": 500.0}))
                added_ms = 1000 * (first_token(running.url) - first_token(mocks[0].url))
        found = figures(results, work.speed, hits, cpu_s, added_ms)
        return found._replace(busiest=busiest(results, work.servers), moved=moved(results))


def server_at_the_end(tail: bytes) -> str | None:
    """Return the server that the last words of an answer name: for routers that show no header of it."""
    found = re.search(rb'"content":" (gpu-\d+) "', tail)
    return found[1].decode() if found else None


def _read(kept: Path | None) -> dict[str, list[float]]:
    if kept is None or not kept.exists():
        return {}
    return {entry["run"]: entry["figures"] for entry in map(json.loads, kept.read_text().splitlines())}


def figures(
    results: Sequence[load.Result], speed: float, hits: float, cpu_s: float, added_ms: float
) -> Figures:
    """Return the figures of one run."""
    # All turns of agents count: how a cold fleet fills is a part of what is compared.
    agents = any(turn_of(result) for result in results)
    counted = results if agents else results[len(results) // 4 :]
    good = [result for result in counted if result.ok]
    short = [result.latency_s for result in good if result.planned.output_tokens <= SHORT_TOKENS]
    first = [(result.first_s or 0) - result.planned.at_s for result in good]
    whole = [result.latency_s for result in good]

    def seconds(values: Sequence[float], share: float) -> float:
        return load.percentile(values, share) * speed

    return Figures(
        short_p99=seconds(short, 0.99),
        first_p50=seconds(first, 0.5),
        first_p99=seconds(first, 0.99),
        whole_p50=seconds(whole, 0.5),
        whole_p99=seconds(whole, 0.99),
        hits=hits,
        failed=1000 * sum(not result.ok for result in results) / len(results),
        cpu_s=cpu_s,
        added_ms=added_ms,
        makespan=max(result.ended_s for result in results) * speed,
        busiest=0.0,
        moved=0.0,
    )


def first_token(url: str) -> float:
    """Return the median time to the first token in wall seconds, one request after the other."""
    planned = [load.Planned(0, 2, f"Probe {number}. " * 1_400) for number in range(PROBES)]
    results = asyncio.run(load.closed(url, planned, 1))
    return statistics.median((result.first_s or 0) - result.started_s for result in results[PROBES // 4 :])


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the processor time that processes have taken, with that of their children that ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended since
        total += sum(map(int, fields[11:15]))
    return total / CLOCK_TICKS


def cell(values: Sequence[float]) -> str:
    """Return the median, and the least and the most of several seeds."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def columns(work: Workload) -> tuple[str, ...]:
    """Return the figures of a workload's table: hits only where prompts have anything in common."""
    own = tuple(name for name in Figures._fields if name not in {"makespan", "busiest", "moved"})
    return work.figures or tuple(name for name in own if name != "hits" or work is PREFIXES)


def table(work: Workload, rows: Rows) -> str:
    """Return a Markdown table."""
    names = columns(work)
    head = " | ".join(TITLES[name] for name in names)
    lines = [f"### {work.title}", "", f"| | on | {head} |", "|---" * (len(names) + 2) + "|"]
    for subject, runs in rows:
        cells = (cell([getattr(run, name) for run in runs]) for name in names)
        lines.append(f"| {subject.title} | {subject.on} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def tables(
    bench: Bench, subjects: Mapping[str, Sequence[Subject]], seeds: int, only: Sequence[str]
) -> Iterator[str]:
    """Yield a table for each workload, or for one alone. `subjects`: by the workload's name."""
    for name, work in WORKLOADS.items():
        if name in subjects and (not only or name in only):
            yield table(work, bench.rows(subjects[name], work, seeds))


def options(line: Any) -> Any:
    """Add the options that all benches have; return the parser."""
    line.add_argument("--generation", default="trixie", help="bookworm, trixie or sid")
    line.add_argument("--seeds", type=int, default=5, help="runs of each row")
    line.add_argument("--requests", type=int, default=1600, help="in each run")
    line.add_argument(
        "--only", choices=tuple(WORKLOADS), action="append", default=[], help="a workload; may be repeated"
    )
    line.add_argument("--rows", default="", help='only rows whose "TITLE | PROGRAM" fits this expression')
    line.add_argument("--keep", type=Path, help="file of finished runs: an interrupted bench goes on there")
    return line
