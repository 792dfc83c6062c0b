"""Where problems stand in the files, and in which order they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lbgen.fleet.text.source import Document, Source
    from lbgen.problems import Location, Path, Problem


def placed(problems: Iterable[Problem], document: Document) -> Iterator[Problem]:
    """Yield the problems, each with a location."""
    for problem in problems:
        if problem.location is not None:
            yield problem
        else:
            yield problem._replace(location=document.locate(problem.path, problem.on_key))


def at_removals(
    problems: Iterable[Problem], removed: Mapping[Path, Location], document: Document
) -> Iterator[Problem]:
    """Yield the problems; what lacks a key that another file removed is wrong there, not where it begins."""
    for problem in problems:
        places = [place for path, place in removed.items() if _lacks(problem, path, document)]
        yield problem._replace(location=places[-1]) if places else problem


def _lacks(problem: Problem, removed: Path, document: Document) -> bool:
    """Tell whether a problem is that a key is not there which was removed."""
    if problem.path != removed[:-1]:
        return False
    if problem.code == "missing-key":
        return f"'{removed[-1]}'" in problem.message
    return _is_empty(document, problem.path)


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


def without_consequences(
    known: Iterable[Problem], further: Iterable[Problem], document: Document
) -> Iterator[Problem]:
    """Yield the further problems, other than those that only follow from errors that are known.

    Where pools or listeners are in error, or a key is misspelt that may have been theirs, nobody
    can tell which pool has a route; what an alias that leads back to itself held is gone.
    """
    errors = [problem for problem in known if problem.is_error]
    unsettled = any(_unsettles_routes(problem) for problem in errors)
    hollow = any(problem.code == "recursive-anchor" for problem in errors)
    for problem in further:
        if unsettled and problem.code in _ABOUT_ROUTES:
            continue
        if hollow and (problem.code == "missing-key" or _is_empty(document, problem.path)):
            continue
        yield problem


def without_noise(problems: Sequence[Problem], document: Document) -> Iterator[Problem]:
    """Yield the problems; beside errors nobody needs to hear that a listener that is not written is open."""
    noisy = any(problem.is_error for problem in problems)
    for problem in problems:
        if not (noisy and problem.code == "open-listener" and not document.written(problem.path)):
            yield problem


_ABOUT_ROUTES = ("unrouted-pool",)


def _unsettles_routes(problem: Problem) -> bool:
    misspelt = problem.code == "unknown-key" and len(problem.path) == 1
    return misspelt or problem.code == "recursive-anchor" or problem.path[:1] in (("pools",), ("listeners",))


def _is_empty(document: Document, path: Path) -> bool:
    node = document.node(path)
    return node is not None and node.id != "scalar" and not node.value


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
