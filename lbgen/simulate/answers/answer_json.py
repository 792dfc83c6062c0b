"""Answers as JSON: the contract's shape, with loads, capacities and differences beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.simulate.answers.study import base_of
from lbgen.simulate.load.closed import Closed
from lbgen.simulate.runs.result import as_json, difference_json, differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.simulate.answers.study import Answer, Question
    from lbgen.simulate.runs.result import Row


def answers_json(
    answers: Sequence[Answer], carried: Mapping[tuple[str, str | None], float]
) -> dict[str, Any]:
    """Return one result for each strategy, target and load; figures of the whole are null for several loads.

    `carried` is what `lbgen.simulate.sizing.objective.capacities` found, or nothing.
    """
    first = answers[0]
    question = first.question
    alone = len(answers) == 1
    return {
        "kind": "simulate",
        "pool": question.pool.name,
        "workload": {
            "name": question.workload.name if alone else _common_name(question),
            "rate_per_s": round(first.rate_per_s, 6) if alone else None,
            "requests": question.requests,
            "seeds": list(question.seeds),
        },
        "load": round(first.load, 6) if alone else None,
        "capacity_per_s": round(first.capacity_per_s, 6),
        "stable": all(one.stable for one in answers),
        "results": [_row(one, row, carried) for one in answers for row in one.rows],
    }


def _common_name(question: Question) -> str:
    """Return what the workloads of a sweep have in common."""
    load = question.workload
    return load.inner.name if isinstance(load, Closed) else load.name


def _row(found: Answer, row: Row, carried: Mapping[tuple[str, str | None], float]) -> dict[str, Any]:
    base, clients = base_of(found, row), found.question.workload.clients
    compared = [] if base is row else [difference_json(one) for one in differences(row, base)]
    capacity_found = {}
    if (row.strategy, row.target) in carried:
        capacity_found["capacity_at_objective_per_s"] = round(carried[row.strategy, row.target], 6)
    return {
        **as_json(row),
        "load": round(found.load, 6),
        "rate_per_s": round(found.rate_per_s, 6),
        **({} if clients is None else {"clients": clients}),
        "seeds": list(found.question.seeds),
        **capacity_found,
        "difference_to_present": compared,
    }
