"""Where problems stand in the files, and in which order they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.fleet.source import Document, Source
    from lbgen.problems import Path, Problem


def placed(problems: Iterable[Problem], document: Document) -> Iterator[Problem]:
    """Yield the problems, each with a location."""
    for problem in problems:
        if problem.location is not None:
            yield problem
        else:
            yield problem._replace(location=document.locate(problem.path, problem.on_key))


def apart_from(
    errors: Iterable[Problem], further: Iterable[Problem], document: Document
) -> Iterator[Problem]:
    """Yield the further problems about values that are written, and others than the errors are about.

    A pool whose servers were refused looks as if it had none, and a misspelt 'listeners' leaves
    the default one; those are no second mistakes.
    """
    paths = [problem.path for problem in errors if problem.is_error and problem.path]
    for problem in further:
        if document.written(problem.path) and not any(_related(problem.path, path) for path in paths):
            yield problem


def in_file_order(problems: Iterable[Problem], sources: Sequence[Source]) -> tuple[Problem, ...]:
    """Return the problems in the order of files, lines and columns, each once."""
    order = {source.name: index for index, source in enumerate(sources)}

    def position(problem: Problem) -> tuple[int, int, int]:
        place = problem.location
        if place is None:
            return len(order) + 1, 0, 0
        return order.get(place.file, len(order)), place.line, place.column

    return tuple(sorted(dict.fromkeys(problems), key=position))


def _related(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
