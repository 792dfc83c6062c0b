"""``lbgen simulate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lbgen.cli.console import terminal_width
from lbgen.cli.options import MOST_LOAD, MOST_RATE, Amount, Command, fleet_options, format_option, option
from lbgen.cli.predict.kv_agent import KvAgent
from lbgen.cli.predict.pools import asked_pool, lenient_fleet, strategy_name
from lbgen.cli.predict.reports import PAGE, PICTURE, expect_writable, origin, write_report
from lbgen.cli.predict.simulate_inputs import Wanted, calibration_of, incident_of, model_note, workload_of
from lbgen.cli.progress import Progress
from lbgen.engines import ENGINES
from lbgen.render import builtin_templates
from lbgen.simulate.answers.answer_json import answers_json
from lbgen.simulate.answers.picture import picture
from lbgen.simulate.answers.report import page
from lbgen.simulate.answers.study import Question, study
from lbgen.simulate.answers.text import capacity_lines, capacity_text, tables
from lbgen.simulate.load.closed import Closed
from lbgen.simulate.load.conversations import Agents
from lbgen.simulate.runs.dask_sweep import dask_sweep
from lbgen.simulate.runs.peers import PEERS
from lbgen.simulate.runs.run import sweep
from lbgen.simulate.servers.step_times.profiles import NAMES
from lbgen.simulate.sizing.objective import capacities, parse_objective

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet
    from lbgen.simulate.answers.study import Answer
    from lbgen.simulate.sizing.objective import Objective

    Carried = dict[tuple[str, str | None], float]

MOST_REQUESTS = 10_000_000
DEFAULT_SEEDS = (1, 2, 3, 4, 5)


@click.command(cls=Command)
@fleet_options
@option("--pool", metavar="NAME", help="Pool to simulate. Default: the first one that has a route.")
@option(
    "--workload",
    default="bimodal",
    show_default=True,
    metavar="W",
    help="bimodal, fixed, exponential, shared, tenants, chat, agents, NAME:key=value,...; FILE.yaml; "
    "a trace: FILE.csv, FILE.jsonl; or an access log: FILE.log[:key=value,...].",
)
@option(
    "--clients",
    type=click.IntRange(1, 100_000),
    multiple=True,
    metavar="N",
    help="Closed loop: this many clients send, wait for the answer, think and send again; may be repeated.",
)
@option("--think", metavar="T", help="Average think time of --clients, such as 500ms. Default: none.")
@option("--strategy", "strategies", multiple=True, metavar="S", help="Strategy to compare; may be repeated.")
@option(
    "--peer",
    "peers",
    type=click.Choice(sorted(PEERS)),
    multiple=True,
    help="Another router's policy, as a row to compare with; may be repeated.",
)
@option("--rate", type=Amount(MOST_RATE), metavar="R", help="Requests per second.")
@option(
    "--load",
    "loads",
    type=Amount(MOST_LOAD),
    multiple=True,
    metavar="L",
    help="The rate as a share of the servers' capacity, such as 0.9; may be repeated.",
)
@option(
    "--requests",
    type=click.IntRange(1, MOST_REQUESTS),
    help="Requests of each run. Default: for ten times as long as the longest answer takes, and at least "
    "10,000 and 100 for each server.",
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
@option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="[GLOB=]PROFILE",
    help=f"How fast the servers are (of a name like GLOB): {', '.join(NAMES)}, or FILE.yaml.",
)
@option(
    "--calibrate",
    multiple=True,
    metavar="FILE",
    help="Step times from the JSON of aiperf (one file for each concurrency: may be repeated), guidellm or "
    "lbgen trial.",
)
@option("--slots", type=click.IntRange(1, 100_000), help="Requests that a server computes at the same time.")
@option(
    "--incident",
    "incidents",
    multiple=True,
    metavar="AT:SERVER:WHAT",
    help="Event at a server, such as 60s:gpu-0:fail; also recover, drain, undrain; may be repeated.",
)
@option(
    "--find-capacity",
    metavar="OBJECTIVE",
    help="Find the highest rate at which each strategy meets an objective, such as 'ttft_p99<2s'.",
)
@option(
    "--report",
    metavar="FILE.html|FILE.svg",
    type=click.Path(),
    help="Also write a page with charts (.html) or one chart (.svg).",
)
@option("--executor", metavar="dask://HOST:PORT", help="Run on a Dask cluster.")
@option("--skip-bad-rows", is_flag=True, help="Skip and count the rows of a trace that cannot be read.")
@format_option("Output for people (text) or for programs (json).")
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: object) -> None:
    """Predict by simulation how strategies perform for a pool.

    By default the pool's strategy is compared with the usual ones at a load of 0.8. With -t, strategies
    behave as that target implements them; without it, as they are defined.
    """
    wanted = Wanted(**options)  # type: ignore[arg-type]  # click made them from the options above
    fleet = lenient_fleet(console, request)
    question = _question(console, fleet, request, wanted)
    expect_writable(wanted.report, PAGE, PICTURE)
    for limit in _limits(question):
        console.note(limit)
    objective = parse_objective(wanted.find_capacity) if wanted.find_capacity else None
    where = dask_sweep(wanted.executor) if wanted.executor else sweep
    done = study(_swept(question, wanted), where, Progress(console, "runs").show)
    carried: Carried = {}
    interrupted = not done.complete or not _search(console, question, objective, carried)
    if done.answers:
        _show(console, wanted, done.answers, carried)
    if interrupted:
        console.error(f"interrupted: {done.finished} of {done.planned} runs are finished")
        raise click.exceptions.Exit(130)


def _swept(question: Question, wanted: Wanted) -> list[Question]:
    """Return the question at each load, or with each number of clients."""
    closed = question.workload
    if isinstance(closed, Closed | Agents) and wanted.clients:
        return [question._replace(workload=closed.with_clients(count)) for count in wanted.clients]
    return [question._replace(load=load) for load in wanted.loads or (None,)]


def _limits(question: Question) -> Iterator[str]:
    """Yield what the user should know of how far the prediction is about their fleet."""
    if not ENGINES[question.pool.engine].llm:
        yield f"note: {question.pool.name} generates no text, and only servers that do are modelled"
    if not question.profiles and question.calibration is None:
        yield model_note()
    if len(question.fleet.pools) > 1:
        yield f"note: one pool is simulated, {question.pool.name}; --pool names another"


def _search(console: Console, question: Question, objective: Objective | None, carried: Carried) -> bool:
    """Fill in what each strategy carries; return False when interrupted."""
    progress = Progress(console, "steps of the search")
    try:
        carried.update(capacities(question, objective, progress.show) if objective else ())
    except KeyboardInterrupt:
        progress.clear()
        return False
    return True


def _show(console: Console, wanted: Wanted, answers: Sequence[Answer], carried: Carried) -> None:
    objective = wanted.find_capacity or ""
    if wanted.report:
        report = _report(console, wanted.report, answers, capacity_lines(objective, carried))
        write_report(console, wanted.report, report)
    if wanted.format == "json":
        console.result(json.dumps(answers_json(answers, carried), indent=2))
    else:
        console.result(tables(answers, terminal_width()) + capacity_text(objective, carried))


def _report(console: Console, name: str, answers: Sequence[Answer], capacity: Sequence[str]) -> str:
    if name.endswith(PICTURE):
        return picture(answers, builtin_templates())
    return page(answers, builtin_templates(), origin(console), capacity)


def _question(console: Console, fleet: Fleet, request: FleetRequest, wanted: Wanted) -> Question:
    if wanted.rate is not None and wanted.loads:
        raise click.UsageError("--rate and --load say the same thing twice: use one of them")
    pool = asked_pool(fleet, wanted.pool)
    load = workload_of(console, wanted, pool.name)
    return Question(
        fleet=fleet,
        pool=pool,
        strategies=tuple(strategy_name(name) for name in wanted.strategies),
        targets=request.targets,
        workload=load,
        requests=wanted.requests or 0,
        seeds=tuple(dict.fromkeys(wanted.seeds)),
        rate_per_s=wanted.rate,
        profiles=wanted.profiles,
        slots=wanted.slots,
        incidents=tuple(incident_of(text, pool) for text in wanted.incidents),
        agent=KvAgent,
        calibration=calibration_of(console, wanted.calibrate),
        peers=tuple(dict.fromkeys(wanted.peers)),
    )
