"""``lbgen size``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import click

from lbgen.cli.console import terminal_width
from lbgen.cli.options import MOST_RATE, Amount, Command, fleet_options, format_option, option
from lbgen.cli.predict.kv_agent import KvAgent
from lbgen.cli.predict.pools import asked_pool, lenient_fleet, strategy_name
from lbgen.cli.predict.reports import PAGE, PICTURE, expect_writable, origin, write_report
from lbgen.cli.predict.simulate_inputs import calibration_of, model_note, note_trace
from lbgen.cli.progress import Progress
from lbgen.render import builtin_templates
from lbgen.simulate.answers.study import Question, is_closed, strategies_of
from lbgen.simulate.load.logs.load import read_log
from lbgen.simulate.load.named import workload
from lbgen.simulate.servers.step_times.profiles import NAMES
from lbgen.simulate.sizing.as_json import size_json, size_page, size_picture
from lbgen.simulate.sizing.as_text import Costs, size_text
from lbgen.simulate.sizing.objective import parse_objective
from lbgen.simulate.sizing.prices import price_of
from lbgen.simulate.sizing.size import kinds_of, sized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet
    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.sizing.size import Sized

DEFAULT_SEEDS = (1, 2, 3, 4, 5)
NEAR, CURVE = (1, 1), (3, 4)
"""How many fewer and more servers are run besides: for the table, and for the curve of a report."""
BUSIEST_S = 600.0
"""A pool is sized for the busiest stretch of a log that has such a length, unless its terms say otherwise."""
USUAL_TRIES = 8
"""Numbers of servers that are tried for a strategy, about: what the progress counts with."""


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    objective: str
    pools: tuple[str, ...]
    workload: str
    log: str | None
    rate: float | None
    strategies: tuple[str, ...]
    profiles: tuple[str, ...]
    calibrate: tuple[str, ...]
    slots: int | None
    cost: tuple[str, ...]
    requests: int | None
    seeds: tuple[int, ...]
    exit_code: bool
    report: str | None
    skip_bad_rows: bool
    format: str


@click.command(cls=Command)
@fleet_options
@option(
    "--objective",
    required=True,
    metavar="OBJECTIVE",
    help="What has to hold: 'ttft_p99<2s'; of ttft, e2e or queue and mean, p50, p90, p95 or p99, or "
    "load_stdev<3.",
)
@option("--pool", "pools", multiple=True, metavar="NAME", help="Pool to size; may be repeated.")
@option(
    "--workload",
    default="bimodal",
    show_default=True,
    metavar="W",
    help="As of simulate: bimodal, shared, agents:sessions=200, FILE.yaml, a trace.",
)
@option(
    "--log",
    metavar="FILE[:key=value,...]",
    help="An access log as the load: lbgen's, other JSON, HAProxy's httplog, or combined. Keys: "
    "stream_bytes, answer_bytes, prompt_bytes, prompt, streams, session, pool, window.",
)
@option("--rate", type=Amount(MOST_RATE), metavar="R", help="Requests per second.")
@option("--strategy", "strategies", multiple=True, metavar="S", help="Strategy to compare; may be repeated.")
@option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="[GLOB=]PROFILE",
    help=f"Kinds of servers to size with: {', '.join(NAMES)}, or FILE.yaml; may be repeated. With GLOB: "
    "those of the pool.",
)
@option(
    "--calibrate",
    multiple=True,
    metavar="FILE",
    help="Step times from the JSON of aiperf, guidellm or lbgen trial.",
)
@option("--slots", type=click.IntRange(1, 100_000), help="Requests that a server computes at the same time.")
@option(
    "--cost",
    multiple=True,
    metavar="KIND=PRICE/h",
    help="Price of a server of this kind, such as h100-8b=2.50/h.",
)
@option(
    "--requests",
    type=click.IntRange(100, 10_000_000),
    help="Requests of each run. Default: for four times as long as the longest answer takes, and at least "
    "10,000 and 100 for each server; those in the middle count.",
)
@option(
    "--seed",
    "seeds",
    type=click.IntRange(0),
    multiple=True,
    default=DEFAULT_SEEDS,
    show_default=True,
    help="Random seed; one run for each. May be repeated.",
)
@option("--exit-code", is_flag=True, help="Exit 1 if a pool has fewer servers than it needs.")
@option(
    "--report",
    metavar="FILE.html|FILE.svg",
    type=click.Path(),
    help="Also write a page with the curve (.html) or one chart (.svg).",
)
@option("--skip-bad-rows", is_flag=True, help="Skip and count the rows of a trace that cannot be read.")
@format_option("Output for people (text) or for programs (json).")
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: object) -> int:
    """Find by simulation how many servers an objective needs.

    Reports, for the pool's strategy and the usual ones, the smallest number of servers that meets the
    objective, its 95 % interval over the seeds, the result with one server fewer and one more, and what
    happens when a server fails.
    """
    wanted = Wanted(**options)  # type: ignore[arg-type]  # click made them from the options above
    objective = parse_objective(wanted.objective)
    fleet = lenient_fleet(console, request)
    costs = Costs(dict(price_of(text) for text in wanted.cost))
    questions = list(_questions(console, fleet, request, wanted))
    kinds = [_kinds(question, costs) for question in questions]
    expect_writable(wanted.report, PAGE, PICTURE)
    if not wanted.profiles and not costs.per_hour and not wanted.calibrate:
        console.note(model_note())
    tries = sum(
        len(names) * len(strategies_of(question)) * max(1, len(question.targets))
        for question, names in zip(questions, kinds, strict=True)
    )
    progress = _Tries(console, USUAL_TRIES * tries)
    try:
        found = [
            sized(question, objective, names, CURVE if wanted.report else NEAR, progress.next)
            for question, names in zip(questions, kinds, strict=True)
        ]
    finally:
        progress.clear()
    _show(console, wanted, found, costs)
    return _code(wanted, found)


class _Tries(Progress):
    """Counts numbers of servers that were tried; how many there will be is not known before."""

    def __init__(self, console: Console, about: int) -> None:
        super().__init__(console, "tries (estimated)")
        self._about = about
        self._tried = 0

    def next(self) -> None:
        """Count one."""
        self._tried += 1
        self.show(self._tried, max(self._about, self._tried + 1))


def _kinds(question: Question, costs: Costs) -> list[str]:
    """Return the kinds to size with: those asked for, and those that have a price."""
    if not question.profiles and costs.per_hour:
        return list(costs.per_hour)
    return list(dict.fromkeys((*kinds_of(question.pool, question.profiles), *costs.per_hour)))


def _questions(console: Console, fleet: Fleet, request: FleetRequest, wanted: Wanted) -> Iterator[Question]:
    """Yield one question for each pool."""
    for name in dict.fromkeys(wanted.pools) or (None,):
        pool = asked_pool(fleet, name)
        load = _load(console, wanted, pool.name)
        yield Question(
            fleet=fleet,
            pool=pool,
            strategies=tuple(strategy_name(one) for one in wanted.strategies),
            targets=request.targets,
            workload=load,
            requests=wanted.requests or 0,
            seeds=tuple(dict.fromkeys(wanted.seeds)),
            rate_per_s=wanted.rate,
            profiles=wanted.profiles,
            slots=wanted.slots,
            agent=KvAgent,
            calibration=calibration_of(console, wanted.calibrate),
        )


def _load(console: Console, wanted: Wanted, pool: str) -> Workload:
    """Return what comes to a pool."""
    if wanted.log is None:
        load = workload(wanted.workload, skip_bad_rows=wanted.skip_bad_rows, pool=pool)
    else:
        load = read_log(wanted.log, pool=pool, busiest_s=BUSIEST_S)
    note_trace(console, load)
    if is_closed(load) and wanted.rate:
        raise click.UsageError("--rate does not apply to clients that wait for responses")
    if not is_closed(load) and not wanted.rate and load.own_rate is None:
        raise click.UsageError(f"{load.name} has no rate of its own: give one with --rate")
    return load


def _show(console: Console, wanted: Wanted, found: Sequence[Sized], costs: Costs) -> None:
    if wanted.report:
        templates = builtin_templates()
        drawn = wanted.report.endswith(PICTURE)
        report = (
            size_picture(found, costs, templates)
            if drawn
            else size_page(found, costs, templates, origin(console))
        )
        write_report(console, wanted.report, report)
    if wanted.format == "json":
        console.result(json.dumps(size_json(found, costs), indent=2))
    else:
        console.result("\n".join(size_text(one, costs, terminal_width()) for one in found))


def _code(wanted: Wanted, found: Sequence[Sized]) -> int:
    """Return 1 where no number of servers does it, or, if asked for, where a pool has too few."""
    never = any(all(one.servers is None for one in pool.needed) for pool in found)
    return int(never or (wanted.exit_code and any(pool.lacking for pool in found)))
