"""What an answer means, in words. Nothing is called a difference that the runs do not prove."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.simulate.answers.study import base_of, is_closed, missing_facts
from lbgen.simulate.runs.result import combined, differences, row_name, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.simulate.answers.study import Answer
    from lbgen.simulate.runs.result import Difference, Figures, Row

WORDS = {
    "ttft_p99": "first token P99",
    "e2e_p99": "whole answer P99",
    "e2e_p50": "whole answer P50",
    "queue_p99": "waiting P99",
    "load_stdev": "spread",
    "errors": "failed requests a run",
}
"""The metrics that are told apart in words; the first ones decide what is better."""
COUNTS = {"load_stdev", "errors"}
"""Those that are not seconds."""
DECIDING = ("errors", "ttft_p99", "e2e_p99")
WORTH_TELLING = 0.01
"""A difference below this share of the figure itself is none, however certain."""
NOTICED_S = 0.01
"""Nor is one of less than a hundredth of a second, about one decode step: nobody sees it."""


def headline(found: Answer) -> str:
    """Return one line that says what was simulated, in all that matters."""
    question = found.question
    servers = found.setup.servers
    kinds = Counter(
        (f"{one.profile.name}, {one.profile.slots} slots" + (" (backup)" if one.backup else ""))
        for one in servers
    )
    what = "; ".join(f"{count} x {kind}" if len(kinds) > 1 else kind for kind, count in kinds.items())
    balancers = f", {found.setup.balancers} balancers" if found.setup.balancers > 1 else ""
    several = "s" * (len(question.seeds) > 1)
    seeds = f"random seed{several} {', '.join(map(str, question.seeds))}"
    return (
        f"{question.pool.name}: {len(servers)} server{'s' * (len(servers) > 1)} ({what}){balancers}; "
        f"{question.workload.name}, {found.rate_per_s:.4g} requests/s = load {found.load:.2f} of "
        f"{found.capacity_per_s:.4g}/s; {question.requests:,} requests a run; {seeds}"
    )


def against(found: Answer) -> list[str]:
    """Return how each row differs from the present strategy."""
    lines = []
    for row in found.rows:
        base = base_of(found, row)
        if row is base:
            continue
        told = [_told(one) for one in notable(row, base)]
        name = row_name(row)
        lines.append(f"{name} against {base.strategy}: {', '.join(told) or _nothing(found)}")
    return lines


def notable(row: Row, base: Row) -> list[Difference]:
    """Return the differences that are certain and large enough to matter."""
    whole = combined(base.runs)
    return [
        one
        for one in differences(row, base)
        if one.metric in WORDS
        and one.interval.certain
        and abs(one.interval.mean) > WORTH_TELLING * abs(_figure(whole, one.metric))
        and abs(one.interval.mean) > (0.0 if one.metric in COUNTS else NOTICED_S)
    ]


def in_words(found: Answer) -> list[str]:
    """Return what clients would notice, without the words of the trade."""
    sentences = []
    for name, what in (("ttft_s", "begin"), ("e2e_s", "are complete")):
        texts = [(row_name(row), getattr(combined(row.runs), name).p99) for row in found.rows]
        known = [(row, seconds(value)) for row, value in texts if value is not None]
        if len({text for _, text in known}) == 1:
            whatever = ", whatever the strategy" if len(known) > 1 else ""
            sentences.append(f"99 of 100 answers {what} within {known[0][1]}{whatever}.")
        elif known:
            listed = ", ".join(f"{text} under {row}" for row, text in known)
            sentences.append(f"99 of 100 answers {what} within {listed}.")
    return sentences


def conclusion(found: Answer) -> list[str]:
    """Return what to make of it."""
    return [
        *_unsteady(found),
        *_unstable(found),
        *_overloaded_servers(found),
        *_unknown(found),
        *_verdict(found),
    ]


def _figure(run: Figures, metric: str) -> float:
    figures = {
        "ttft_p99": run.ttft_s.p99,
        "e2e_p99": run.e2e_s.p99,
        "e2e_p50": run.e2e_s.p50,
        "queue_p99": run.queue_s.p99,
        "load_stdev": run.load_stdev,
        "errors": float(run.requests - run.ok),
    }
    return figures[metric] or 0.0


def _told(difference: Difference) -> str:
    mean, half = difference.interval
    unit = "" if difference.metric in COUNTS else " s"
    return f"{WORDS[difference.metric]} {mean:+.3g}{unit} ± {half or 0.0:.2g}"


def _nothing(found: Answer) -> str:
    if len(found.question.seeds) == 1:
        return "one seed cannot tell a difference from chance"
    return "no significant difference"


def _unsteady(found: Answer) -> Iterator[str]:
    names = [row_name(row) for row in found.rows if not combined(row.runs).steady]
    if names:
        who = "" if len(names) == len(found.rows) else f" under {', '.join(names)}"
        advice = " Use more --requests; without that option there are enough." if found.stable else ""
        yield (
            f"* Not in a steady state{who}: the queue was still growing when the last request came, so that "
            f"percentiles are too low.{advice}"
        )


def _unstable(found: Answer) -> Iterator[str]:
    if not found.stable:
        growth = found.rate_per_s - found.capacity_per_s
        yield (
            f"Unstable: {found.load:.2f} times what the servers can carry arrives. About {growth:.3g} more "
            "requests wait with every second, under every strategy; the latencies are those of this run's "
            "length and would go on growing. Add servers, or refuse requests (max_in_flight and queue)."
        )
    elif is_closed(found.question.workload):
        yield f"The clients wait for answers: the faster these come, the more is asked ({_asked(found)})."
    elif found.load > 0.95:
        yield f"At a load of {found.load:.2f} waits vary widely from run to run: trust the intervals alone."


def _asked(found: Answer) -> str:
    rates = [(row_name(row), combined(row.runs)) for row in found.rows]
    return ", ".join(f"{run.requests / (run.duration_s or 1.0):.4g}/s under {name}" for name, run in rates)


def _overloaded_servers(found: Answer) -> Iterator[str]:
    """Name servers that a share by weight alone would overload."""
    if not found.stable or all(row.strategy != "round_robin" for row in found.rows):
        return
    if over := found.overloaded:
        yield f"round_robin gives {', '.join(over)} more than it can carry: let weights follow the speed."


def _unknown(found: Answer) -> Iterator[str]:
    names = [row.strategy for row in found.rows]
    for name in dict.fromkeys(missing_facts(found.question.workload, names)):
        load = found.question.workload.name
        yield f"Requests of {load} have no {name}, so it sends them in turn: try --workload agents."
    refusals = {(row.strategy, target): why for row in found.rows for target, why in row.refused_by.items()}
    for (name, target), why in refusals.items():
        yield f"{name} is not available on {target}, which {why}."


def _verdict(found: Answer) -> Iterator[str]:
    better, worse = [], []
    for row in found.rows:
        base = base_of(found, row)
        if row is base:
            continue
        changes = [one for one in notable(row, base) if one.metric in DECIDING]
        name = row_name(row)
        if changes and all(one.interval.mean < 0 for one in changes):
            better.append(name)
        elif changes and all(one.interval.mean > 0 for one in changes):
            worse.append(name)
    present = found.question.pool.strategy.name
    if len(found.question.seeds) == 1:
        return
    if better:
        yield f"Better than {present} for this load: {', '.join(better)}."
    elif len(found.rows) > 1:
        rest = f" Worse: {', '.join(worse)}." if worse else ""
        yield f"Nothing here is significantly better than {present}.{rest}"
