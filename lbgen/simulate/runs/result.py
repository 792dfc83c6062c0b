"""What a run tells, in one shape for predictions and measurements. Seconds; missing figures are None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.simulate.runs.statistics import Interval, interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lbgen.simulate.runs.statistics import Quantiles
    from lbgen.simulate.runs.tally import Tally

CURVE_POINTS = 200
SERIES_POINTS = 60


class Spread(NamedTuple):
    """A distribution in five figures, seconds."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Quantiles) -> Spread:
        """Return the figures of these values."""
        return cls(values.mean(), *values.at(0.5, 0.9, 0.95, 0.99))


class ServerFigures(NamedTuple):
    """What one server had to do."""

    name: str
    requests: int
    mean_in_flight: float
    max_in_flight: int


class Figures(NamedTuple):
    """One run: one strategy, one seed."""

    requests: int
    ok: int
    errors: Mapping[str, int]
    duration_s: float
    ttft_s: Spread
    """Latencies are those of the requests behind the first tenth, in which caches and queues fill."""
    e2e_s: Spread
    queue_s: Spread
    """From the arrival at the balancer until a server begins to compute."""
    tokens_per_s: float | None
    load_stdev: float | None
    prefix_hit_ratio: float | None
    servers: tuple[ServerFigures, ...]
    curves: Mapping[str, Sequence[float]] = {}
    """Quantiles at even steps, by the name of the distribution."""
    preemptions: int = 0
    in_flight: Sequence[Sequence[float]] = ()
    """By server: requests in flight, averaged over so many equal stretches of the run."""
    steady: bool = True
    """False: the queue still grew when the last request came; in a longer run all percentiles are higher."""


class Row(NamedTuple):
    """One strategy on one target, over all seeds."""

    strategy: str
    target: str | None
    runs: tuple[Figures, ...]
    refused_by: Mapping[str, str] = {}
    """Targets of the fleet that cannot do it, with their reasons."""
    present: bool = False
    """It is what the fleet file says."""
    file: str = ""
    """A configuration that lbgen did not write, which this row is of; empty: it is of a strategy."""


class Difference(NamedTuple):
    """How one row differs from the fleet's present strategy, run by run with the same requests."""

    metric: str
    interval: Interval


METRICS: Mapping[str, Callable[[Figures], float | None]] = {
    "ttft_p99": lambda run: run.ttft_s.p99,
    "ttft_p50": lambda run: run.ttft_s.p50,
    "e2e_p99": lambda run: run.e2e_s.p99,
    "e2e_p50": lambda run: run.e2e_s.p50,
    "queue_p99": lambda run: run.queue_s.p99,
    "load_stdev": lambda run: run.load_stdev,
    "errors": lambda run: float(run.requests - run.ok),
}
"""What is compared."""


def differences(row: Row, base: Row) -> list[Difference]:
    """Return the differences in every metric that both have in every run."""
    found = []
    for name, figure in METRICS.items():
        pairs = [(figure(a), figure(b)) for a, b in zip(row.runs, base.runs, strict=True)]
        values = [a - b for a, b in pairs if a is not None and b is not None]
        if len(values) == len(pairs):
            found.append(Difference(name, interval(values)))
    return found


def figures(tally: Tally, servers: Sequence[Any]) -> Figures:
    """Return the figures of one finished run; `servers` are the simulation's."""
    duration = tally.duration_s
    prompts = tally.prompt_tokens
    caches = any(server.setup.profile.prefix_cache for server in servers)
    return Figures(
        requests=tally.arrived,
        ok=tally.ok,
        errors=dict(sorted(tally.errors.items())),
        duration_s=duration,
        ttft_s=Spread.of(tally.ttft),
        e2e_s=Spread.of(tally.e2e),
        queue_s=Spread.of(tally.wait),
        tokens_per_s=tally.output_tokens / duration if duration else None,
        load_stdev=tally.load_stdev(),
        prefix_hit_ratio=tally.hit_tokens / prompts if caches and prompts else None,
        servers=tuple(
            ServerFigures(
                server.setup.name,
                server.requests,
                server.busy_s / duration if duration else 0.0,
                server.max_in_flight,
            )
            for server in servers
        ),
        curves={
            "ttft": tally.ttft.curve(CURVE_POINTS),
            "e2e": tally.e2e.curve(CURVE_POINTS),
        },
        preemptions=sum(server.engine.preemptions for server in servers),
        in_flight=tally.series.averages(SERIES_POINTS),
        steady=tally.steady,
    )


def combined(runs: Sequence[Figures]) -> Figures:
    """Return one set of figures for several seeds: counts added, the rest averaged."""
    if len(runs) == 1:
        return runs[0]
    return runs[0]._replace(
        requests=sum(run.requests for run in runs),
        ok=sum(run.ok for run in runs),
        errors={
            name: sum(run.errors.get(name, 0) for run in runs)
            for name in sorted({name for run in runs for name in run.errors})
        },
        duration_s=sum(run.duration_s for run in runs),
        ttft_s=_spread([run.ttft_s for run in runs]),
        e2e_s=_spread([run.e2e_s for run in runs]),
        queue_s=_spread([run.queue_s for run in runs]),
        tokens_per_s=_mean([run.tokens_per_s for run in runs]),
        load_stdev=_mean([run.load_stdev for run in runs]),
        prefix_hit_ratio=_mean([run.prefix_hit_ratio for run in runs]),
        servers=tuple(_server([run.servers[index] for run in runs]) for index in range(len(runs[0].servers))),
        preemptions=sum(run.preemptions for run in runs),
        steady=sum(run.steady for run in runs) * 2 > len(runs),
    )


def as_json(row: Row) -> dict[str, Any]:
    """Return a row in the contract's shape."""
    whole = combined(row.runs)
    return {
        "strategy": row.strategy,
        "target": row.target,
        "requests": whole.requests,
        "ok": whole.ok,
        "errors": dict(whole.errors),
        "duration_s": _rounded(whole.duration_s),
        "ttft_s": _spread_json(whole.ttft_s),
        "e2e_s": _spread_json(whole.e2e_s),
        "queue_s": _spread_json(whole.queue_s),
        "tokens_per_s": _rounded(whole.tokens_per_s),
        "load_stdev": _rounded(whole.load_stdev),
        "prefix_hit_ratio": _rounded(whole.prefix_hit_ratio),
        "servers": [
            {
                "name": server.name,
                "requests": server.requests,
                "mean_in_flight": _rounded(server.mean_in_flight),
                "max_in_flight": server.max_in_flight,
            }
            for server in whole.servers
        ],
        "present": row.present,
        "refused_by": dict(row.refused_by),
        "preemptions": whole.preemptions,
        "steady": whole.steady,
    }


def difference_json(difference: Difference) -> dict[str, Any]:
    """Return a difference with its bounds; null bounds: one seed cannot tell."""
    mean, half = difference.interval
    return {
        "metric": difference.metric,
        "mean": _rounded(mean),
        "low": None if half is None else _rounded(mean - half),
        "high": None if half is None else _rounded(mean + half),
        "significant": difference.interval.certain,
    }


def _spread_json(spread: Spread) -> dict[str, float | None]:
    return {name: _rounded(value) for name, value in spread._asdict().items()}


def _rounded(value: float | None) -> float | None:
    """Return microseconds' precision: what is beyond says nothing."""
    return None if value is None else round(value, 6)


def row_name(row: Row) -> str:
    """Return what tells a row from the others."""
    name = row.file or row.strategy
    return f"{name} on {row.target}" if row.target else name


def seconds(value: float | None) -> str:
    """Return seconds as people read them: three figures."""
    if value is None:
        return "-"
    if value < 0.0995:
        return f"{value * 1000:.0f} ms" if value >= 0.00995 else f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 99.95 else f"{value:.0f} s"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _spread(spreads: Sequence[Spread]) -> Spread:
    return Spread(*(_mean(values) for values in zip(*spreads, strict=True)))


def _server(figures_of_runs: Sequence[ServerFigures]) -> ServerFigures:
    return ServerFigures(
        figures_of_runs[0].name,
        sum(one.requests for one in figures_of_runs),
        sum(one.mean_in_flight for one in figures_of_runs) / len(figures_of_runs),
        max(one.max_in_flight for one in figures_of_runs),
    )
