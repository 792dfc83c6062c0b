"""``lbgen trial``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import click

from lbgen.cli.console import terminal_width
from lbgen.cli.inputs import load_fleet, usable_fleet
from lbgen.cli.options import MOST_LOAD, MOST_RATE, Amount, Command, fleet_options, format_option, option
from lbgen.cli.predict.kv_agent import KvAgent
from lbgen.cli.predict.pools import first_served, named_pool, strategy_name
from lbgen.cli.predict.reports import PAGE, expect_writable
from lbgen.cli.predict.simulate_inputs import note_trace
from lbgen.cli.predict.trial_verdict import judge
from lbgen.cli.progress import Progress
from lbgen.cli.signals import end_as_ctrl_c_does
from lbgen.fleet.shares import shared_out
from lbgen.model import Balancers
from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import Question
from lbgen.simulate.load.named import workload
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.lab.trial.asked.planning import Plan
    from lbgen.lab.trial.conduct import Trial
    from lbgen.model import Fleet, Pool

MOST_REQUESTS = 50_000
"""What a mock GPU server remembers."""
LONG_S, LONGEST_S = 3_600.0, 86_400.0
"""On the clock: a trial that takes longer says so first, and one that takes much longer is a mistake."""


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    pool: str | None
    workload: str
    strategies: tuple[str, ...]
    rate: float | None
    load: float | None
    requests: int
    seed: int
    profiles: tuple[str, ...]
    slots: int | None
    fresh_connections: bool
    runtime: str
    images: tuple[str, ...]
    beside: str | None
    stand_ins: bool
    expectations: tuple[str, ...]
    allow_errors: bool
    report: str | None
    against_log: str | None
    format: str


@click.command(cls=Command)
@fleet_options
@option("--pool", metavar="NAME", help="Which pool. Default: the first that has servers and a route.")
@option(
    "--workload",
    default="bimodal",
    show_default=True,
    metavar="W",
    help="bimodal, fixed, exponential, shared, tenants, chat, agents, NAME:key=value,...; FILE.yaml; "
    "or a trace: FILE.csv, FILE.jsonl.",
)
@option("--strategy", "strategies", multiple=True, metavar="S", help="Strategy to compare; may be repeated.")
@option("--rate", type=Amount(MOST_RATE), metavar="R", help="Requests per second.")
@option(
    "--load",
    type=Amount(MOST_LOAD),
    metavar="L",
    help="The rate as a share of what the servers can carry. Default: 0.8.",
)
@option("--requests", type=click.IntRange(1, MOST_REQUESTS), default=500, show_default=True,
        help="Requests of each run.")  # fmt: skip
@option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Which requests are drawn.")
@option("--profile", "profiles", multiple=True, metavar="[GLOB=]PROFILE", help="How fast the servers are.")
@option("--slots", type=click.IntRange(1, 100_000), help="Requests that a server computes at the same time.")
@option(
    "--fresh-connections",
    is_flag=True,
    help="Send each request on a connection of its own, as clients without keep-alive do.",
)
@option(
    "--runtime",
    type=click.Choice(["auto", "docker", "process"]),
    default="auto",
    show_default=True,
    help="Where everything runs: in containers, or as programs of this machine.",
)
@option("--image", "images", multiple=True, metavar="PROGRAM=IMAGE", help="For nginx, haproxy or mock.")
@option(
    "--beside",
    metavar="OLD.conf",
    type=click.Path(),
    help="An nginx.conf or haproxy.cfg to run in front of the same servers, too.",
)
@option("--stand-ins", is_flag=True, help="Generate stand-ins for certificates that are missing here.")
@option(
    "--expect",
    "expectations",
    multiple=True,
    metavar="EXPR",
    help="Exit 1 unless this holds: 'load_stdev<2', 'p99(least_conn)<0.85*p99(round_robin)'.",
)
@option(
    "--allow-errors",
    is_flag=True,
    help="Exit 0 even if more than 1 % of a run's requests failed.",
)
@option(
    "--against-log",
    metavar="FILE[:key=value,...]",
    help="Measure nothing: compare this access log with the prediction for the same requests. Keys as for "
    "size --log.",
)
@option("--report", metavar="FILE.html", type=click.Path(), help="Also write a page with charts.")
@format_option("Output for people (text) or for programs (json).")
@click.pass_obj
def command(console: Console, /, request: FleetRequest, **options: object) -> None:
    """Measure strategies with the real balancers in front of mock GPU servers.

    The balancers run with the files that render writes, with addresses replaced (-v shows the differences).
    By default the pool's strategy is compared with round_robin at a load of 0.8; with --beside, the fleet is
    compared with another configuration file.
    """
    wanted = Wanted(**options)  # type: ignore[arg-type]  # click made them from the options above
    if wanted.against_log is not None:
        _against_log(console, usable_fleet(console, load_fleet(console, request), request), wanted)
        return
    try:
        from lbgen.lab.trial.asked import expectations  # noqa: PLC0415 - the lab's packages are an extra
        from lbgen.lab.trial.asked.planning import plan  # noqa: PLC0415 - likewise
        from lbgen.lab.trial.results import told  # noqa: PLC0415 - the lab's packages are an extra
    except ImportError as error:
        raise LbgenError(f"lbgen trial needs the package {error.name}: pip install 'lbgen[lab]'") from None
    expect_writable(wanted.report, PAGE)
    expected = [expectations.parse(text) for text in wanted.expectations]
    question = _question(usable_fleet(console, load_fleet(console, request), request), wanted)
    tried = (*question.strategies, *((expectations.BESIDE,) if wanted.beside else ()))
    expectations.missing(expected, tried)
    end_as_ctrl_c_does()
    made = plan(question, console.note, stand_ins=wanted.stand_ins, old=wanted.beside)
    _expect_an_end(console, made)
    trial, complete = _run(console, made, wanted)
    if wanted.format == "json":
        console.result(json.dumps(told.as_json_shape(trial), indent=2))
    else:
        console.result(told.text(trial, terminal_width()))
    if not complete:
        console.error(f"interrupted: {len(trial.rows)} of {made.runs} runs are finished")
        raise click.exceptions.Exit(130)
    judge(console, wanted, expected, trial)


def _against_log(console: Console, fleet: Fleet, wanted: Wanted) -> None:
    """Print a log beside the prediction for the same requests."""
    from lbgen.simulate.answers.twin import twin  # noqa: PLC0415 - most trials have no log
    from lbgen.simulate.answers.twin_text import twin_json, twin_text  # noqa: PLC0415 - likewise
    from lbgen.simulate.load.logs.load import read_replay  # noqa: PLC0415 - likewise

    if wanted.report or wanted.expectations or wanted.rate or wanted.load:
        raise click.UsageError("--against-log takes the log's own load, and has no --report and no --expect")
    question = _question(fleet, wanted)
    log = read_replay(wanted.against_log or "", pool=question.pool.name)
    note_trace(console, log)
    strategies = question.strategies if wanted.strategies else (question.pool.strategy.name,)
    if len(strategies) > 1:
        raise click.UsageError("--against-log: one --strategy ran when the log was written")
    found = twin(question._replace(strategies=strategies, targets=question.targets[:1]), log)
    if wanted.format == "json":
        console.result(json.dumps(twin_json(found), indent=2))
    else:
        console.result(twin_text(found, terminal_width()).rstrip("\n"))


def _run(console: Console, made: Plan, wanted: Wanted) -> tuple[Trial, bool]:
    """Return what was measured, and whether that is all: what is finished is kept when SIGINT comes."""
    from lbgen.lab.trial.conduct import Trial, conduct  # noqa: PLC0415 - likewise
    from lbgen.lab.trial.stage.mapping import version_in  # noqa: PLC0415 - likewise
    from lbgen.lab.trial.stage.places import place  # noqa: PLC0415 - likewise

    names = [found.question.targets[0] for found in made.predictions]
    names += [made.beside.target] if made.beside else []
    targets = {name: version_in(made.question.fleet, name) for name in names}
    rows, planned = [], made.runs
    counter = _Counter(console, planned, wanted.requests)
    with place(wanted.runtime, targets, wanted.images) as runtime:
        console.note(
            f"trial: {planned} run{'s' * (planned > 1)} of {wanted.requests} requests "
            f"with --runtime {runtime.name}, "
            f"at {made.speed:.3g} times the GPUs' speed or slower"
        )
        try:
            for row in conduct(
                made, runtime, console.detail, fresh=wanted.fresh_connections, answered=counter.one
            ):
                rows.append(row)
                counter.run_done(len(rows))
                console.note(f"trial: {len(rows)} of {planned} runs done")
        except KeyboardInterrupt:
            counter.progress.clear()
            if not rows:
                raise
    return Trial(made.predictions[0], tuple(rows), made.speed, runtime.name), len(rows) == planned


class _Counter:
    """Counts the answers of all runs; one that is repeated counts once."""

    def __init__(self, console: Console, runs: int, requests: int) -> None:
        self.progress = Progress(console, "requests")
        self._requests = requests
        self._total = runs * requests
        self._runs = self._here = 0

    def one(self) -> None:
        """Count an answer of the present run."""
        self._here += 1
        here = min(self._here, self._requests)
        self.progress.show(min(self._runs * self._requests + here, self._total - 1), self._total)

    def run_done(self, runs: int) -> None:
        """Begin with the next run."""
        self._runs, self._here = runs, 0
        self.progress.clear()


def _expect_an_end(console: Console, made: Plan) -> None:
    """Say when it takes over an hour; raises `LbgenError` when it takes over a day."""
    runs = [row.runs[0].duration_s for found in made.predictions for row in found.rows]
    seconds = (sum(runs) + (max(runs) if made.beside else 0.0)) / made.speed
    words = (
        f"all runs together take about {seconds / 3_600:.3g} hours: try a higher --rate, or fewer --requests"
    )
    if seconds > LONGEST_S:
        raise LbgenError(words)
    if seconds > LONG_S:
        console.note(f"trial: {words}")


def _question(fleet: Fleet, wanted: Wanted) -> Question:
    if wanted.rate is not None and wanted.load is not None:
        raise click.UsageError("--rate and --load say the same thing twice: use one of them")
    fleet = shared_out(fleet)._replace(balancers=Balancers(1, {}))
    pool = _pool(fleet, wanted.pool)
    names = tuple(dict.fromkeys(strategy_name(name) for name in wanted.strategies))
    return Question(
        fleet=fleet,
        pool=pool,
        strategies=names or ((pool.strategy.name,) if wanted.beside else _usual(pool)),
        targets=tuple(one.name for one in fleet.targets if one.name in TARGETS),
        workload=workload(wanted.workload, pool=pool.name),
        requests=wanted.requests,
        seeds=(wanted.seed,),
        rate_per_s=wanted.rate,
        load=wanted.load,
        profiles=wanted.profiles,
        slots=wanted.slots,
        agent=KvAgent,
        alone=True,
    )


def _usual(pool: Pool) -> tuple[str, ...]:
    present = pool.strategy.name
    return (present, "least_conn" if present == "round_robin" else "round_robin")


def _pool(fleet: Fleet, name: str | None) -> Pool:
    chosen = named_pool(fleet, name) if name is not None else first_served(fleet) or fleet.pools[0]
    if not chosen.servers:
        raise LbgenError(f"the pool {chosen.name} has no servers in the file that could be stood in for")
    return chosen
