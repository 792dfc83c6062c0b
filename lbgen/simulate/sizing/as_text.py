"""What sizing found, in words and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.answers.columns import Column, folded, wrapped
from lbgen.simulate.answers.study import is_closed
from lbgen.simulate.answers.text import figure
from lbgen.simulate.runs.result import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.simulate.sizing.needed import Needed, Step
    from lbgen.simulate.sizing.size import Sized

HOURS_OF_A_MONTH = 730


class Costs(NamedTuple):
    """What a server of each kind costs an hour, in whatever currency."""

    per_hour: Mapping[str, float]

    def of(self, needed: Needed) -> float | None:
        """Return what an answer costs an hour; None where the kind has no price, or no number does it."""
        price = self.per_hour.get(needed.kind)
        return None if price is None or needed.servers is None else price * needed.servers


def size_text(found: Sized, costs: Costs, width: int = 0) -> str:
    """Return headline, table and conclusion; `width`: of the terminal, 0: as wide as need be."""
    lines = [*wrapped([size_headline(found)], width), "", *folded(size_columns(found, costs), 2, width)]
    return "\n".join([*lines, "", *wrapped(size_words(found, costs), width)]) + "\n"


def size_headline(found: Sized) -> str:
    """Return one line that says what was asked."""
    question = found.question
    load = question.workload
    rate = "" if is_closed(load) else f", {question.rate_per_s or load.own_rate:.4g} requests/s"
    seeds = f"random seed{'s' * (len(question.seeds) > 1)} {', '.join(map(str, question.seeds))}"
    return (
        f"{question.pool.name}: {found.now} server{'s' * (found.now != 1)} now; {load.name}{rate}; "
        f"{found.objective.text}; {found.requests:,} requests a run; {seeds}"
    )


def size_columns(found: Sized, costs: Costs) -> list[Column]:
    """Return the table's columns."""
    rows = found.needed
    unit = "" if found.objective.metric == "load_stdev" else ", s"
    near = [[one.step((one.servers or 0) + more) for one in rows] for more in (-1, 0, 1)]
    columns = [
        Column("", "kind", [one.kind for one in rows]),
        Column("", "strategy", [_name(one) for one in rows]),
        Column("servers", "needed", ["never" if one.servers is None else str(one.servers) for one in rows]),
        Column("servers", "95 %", [_interval(one) for one in rows]),
        Column("load", "", [_load(step) for step in near[1]]),
        *(
            Column(f"{found.objective.metric}{unit}", name, [_value(step) for step in steps])
            for name, steps in zip(("one fewer", "needed", "one more"), near, strict=True)
        ),
    ]
    if costs.per_hour:
        prices = [costs.of(one) for one in rows]
        columns.append(Column("cost", "an hour", ["-" if one is None else f"{one:,.2f}" for one in prices]))
    return columns


def size_words(found: Sized, costs: Costs) -> list[str]:
    """Return what to make of it."""
    return [*_starred(found), *_whole(found), *(line for one in _firsts(found) for line in _of(found, one)),
            *_cheapest(found, costs)]  # fmt: skip


def saved(found: Sized, row: Needed) -> int | None:
    """Return how many servers a strategy saves against the present one, with servers of the same kind."""
    base = next(
        (one for one in found.needed if one.present and (one.kind, one.target) == (row.kind, row.target)),
        None,
    )
    if base is None or base.servers is None or row.servers is None:
        return None
    return base.servers - row.servers


def _firsts(found: Sized) -> list[Needed]:
    """Return for each kind the present strategy's row."""
    return [one for one in found.needed if one.present]


def _starred(found: Sized) -> Iterator[str]:
    shown = [one.step(one.servers + more) for one in found.needed if one.servers for more in (-1, 0, 1)]
    if any(step is not None and not step.steady for step in shown):
        yield "* Not in a steady state: the queue was still growing when the last request came."


def _whole(found: Sized) -> Iterator[str]:
    if found.present is None:
        return
    verdict = "keeps" if found.present.met else "does not keep"
    yield (
        f"The pool as it is, {found.now} servers of several kinds, {verdict} the objective: "
        f"{_told(found, found.present)}."
    )


def _of(found: Sized, one: Needed) -> Iterator[str]:
    """Yield what the numbers of one kind mean."""
    if one.servers is None:
        yield f"{one.kind}: no number of servers keeps {found.objective.text}: not even idle ones do."
        return
    yield f"{one.kind}: {_enough(found, one)}"
    if words := [_saving(found, row) for row in found.needed if row.kind == one.kind and row is not one]:
        yield f"Against {one.strategy}: {'; '.join(words)}."
    fewer, more = one.step(one.servers - 1), one.step(one.servers + 1)
    told = [f"one {word}: {_told(found, step)}" for word, step in (("fewer", fewer), ("more", more)) if step]
    yield f"{'; '.join(told).capitalize()}."
    yield from _dying(found, one)


def _enough(found: Sized, one: Needed) -> str:
    needed = one.servers or 0
    text = f"{needed} server{'s' * (needed != 1)} ({_interval(one)} with 95 % confidence)"
    if found.present is not None:
        return f"{text} alone would do."
    verb = "is" if needed == 1 else "are"
    lacking = needed - found.now
    if lacking > 0:
        return f"{text} {verb} needed; the pool has {found.now}, {lacking} too few."
    spare = f", {-lacking} to spare" if lacking < 0 else ", just enough"
    return f"{text} {verb} needed; the pool has {found.now}{spare}."


def _saving(found: Sized, row: Needed) -> str:
    name = f"{row.strategy} on {row.target}" if row.target else row.strategy
    less = saved(found, row)
    if less is None:
        return f"{name} never keeps it" if row.servers is None else f"{name} takes {row.servers}"
    if not less:
        return f"{name} takes as many"
    share = abs(less) / (less + (row.servers or 0))
    word = "saves" if less > 0 else "costs"
    return f"{name} {word} {abs(less)} server{'s' * (abs(less) > 1)} ({100 * share:.0f} %)"


def _dying(found: Sized, one: Needed) -> Iterator[str]:
    if not one.dies or one.servers is None:
        if one.servers == 1:
            yield "When the only server dies, nobody answers: N+1 is 2."
        return
    first = one.dies[0]
    left = one.step(one.servers - 1)
    count = one.servers - 1
    verdict = f"not enough ({_told(found, left)})" if left else "not enough"
    rest = f"{count} {'is' if count == 1 else 'are'} left, which {'is' if count == 1 else 'are'} {verdict}"
    yield (
        f"When one of {one.servers} dies, {rest}; "
        f"{100 * first.failed / first.requests:.2f} % of a run's requests fail before it is ejected. "
        f"N+1 is {one.servers + 1} servers: they meet the objective with one of them down."
    )


def _cheapest(found: Sized, costs: Costs) -> Iterator[str]:
    priced = [(cost, one) for one in found.needed if (cost := costs.of(one)) is not None]
    if not priced:
        return
    cost, one = min(priced, key=lambda pair: pair[0])
    yield (
        f"Cheapest: {one.servers} x {one.kind} with {one.strategy}, {cost:,.2f} an hour "
        f"({cost * HOURS_OF_A_MONTH:,.0f} a month)."
    )


def _told(found: Sized, step: Step) -> str:
    """Return a step's figure with its interval, and what is wrong with it."""
    if step.value is None:
        return "no answers"
    figures = [one for one in step.value if one is not None]
    counted = found.objective.metric == "load_stdev"
    texts = [f"{one:.2f}" if counted else seconds(one) for one in figures]
    value = f"{found.objective.metric} {' ± '.join(texts)}"
    load = "" if step.load is None else f", load {step.load:.2f}"
    lost = f", {step.failed:,} of {step.requests:,} without an answer" if step.failed else ""
    return f"{value}{load}{lost}{'' if step.steady else ', not in a steady state'}"


def _name(one: Needed) -> str:
    name = f"{one.strategy} on {one.target}" if one.target else one.strategy
    return f"{name} (present)" if one.present else name


def _interval(one: Needed) -> str:
    if one.servers is None:
        return "-"
    high = "?" if one.high is None else str(one.high)
    return high if high == str(one.low) else f"{one.low}-{high}"


def _load(step: Step | None) -> str:
    return "-" if step is None or step.load is None else f"{step.load:.2f}"


def _value(step: Step | None) -> str:
    if step is None or step.value is None:
        return "-"
    return figure(step.value.mean) + (" " if step.steady else "*")
