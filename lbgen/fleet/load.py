"""From fleet files to a `Fleet` and everything that is wrong with it, in one go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.build import build
from lbgen.fleet.confidential import discreet
from lbgen.fleet.layers.combine import combine
from lbgen.fleet.rules import check
from lbgen.fleet.schema import FLEET
from lbgen.fleet.shares import warnings as share_warnings
from lbgen.fleet.text.ignores import without_ignored
from lbgen.fleet.text.placing import (
    apart_from,
    at_removals,
    in_file_order,
    placed,
    without_consequences,
    without_noise,
)
from lbgen.fleet.text.source import paused_collector
from lbgen.problems import Problem
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lbgen.fleet.text.source import Document, Source
    from lbgen.model import Fleet


class Loaded(NamedTuple):
    """What became of fleet files."""

    fleet: Fleet | None
    """None where a file or a value in it cannot be read."""
    problems: tuple[Problem, ...]
    """All of them, each with its place, in the order of the files."""
    document: Document | None
    """The merged files; None where one cannot be read as YAML."""


def load(
    sources: Sequence[Source],
    *,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    targets: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
) -> Loaded:
    """Read fleet files, the later ones laid over the earlier, and check what they say.

    `sets` are ``KEY=VALUE`` texts that come last; `targets` and `versions` replace those of the files.
    Raises `LbgenError` for a target or a version of `targets` and `versions` that does not exist.
    """
    with paused_collector():
        combined = combine(sources, sets, environ)
        document = combined.document
        if document is None:
            return Loaded(None, in_file_order(combined.problems, sources), None)
        schema_problems: list[Problem] = []
        values = FLEET.read(document.root, (), schema_problems)
        built = build(values, document, targets, versions or {})
        fresh = (problem for problem in schema_problems if problem.location not in combined.spoiled)
        read = list(at_removals(discreet(fresh, document), combined.removed, document))
        problems = [*_apart_from_unknown(combined.problems, read, document)]
        problems += without_consequences(problems, read, document)
        problems += placed(without_consequences(problems, built.problems, document), document)
        sound = not any(problem.is_error for problem in problems)
        further = _findings(built.fleet) if sound else _findings_of_wreck(built.fleet)
        problems += placed(further if sound else apart_from(problems, further, document), document)
        # What another target or version would say is not known, so nothing can be called unused.
        complete = sound and not targets and not versions
        problems = without_ignored(problems, sources, complete=complete)
        problems = list(without_noise(problems, document))
        return Loaded(built.fleet if sound else None, in_file_order(problems, sources), document)


def _apart_from_unknown(
    problems: Iterable[Problem], read: Iterable[Problem], document: Document
) -> Iterator[Problem]:
    """Yield the problems of reading YAML, without tags of values whose keys are unknown anyway."""
    unknown = {document.locate(problem.path) for problem in read if problem.code == "unknown-key"}
    return (
        problem for problem in problems if problem.code != "unknown-tag" or problem.location not in unknown
    )


def _findings(fleet: Fleet) -> Iterator[Problem]:
    """Yield what the rules and the targets have to say."""
    yield from check(fleet)
    yield from share_warnings(fleet)
    for settings in fleet.targets:
        target = TARGETS[settings.name]
        if settings.version < target.oldest:
            message = f"{target.title} {settings.version} is older than {target.oldest}, the oldest supported"
            yield Problem("version-too-old", message, ("targets", settings.name, "version"))
        yield from target.limits(fleet)


def _findings_of_wreck(fleet: Fleet) -> Iterator[Problem]:
    """Yield what can be said of a fleet made of what was left after errors."""
    try:
        yield from _findings(fleet)
    except Exception:  # noqa: BLE001 - the errors that are known already matter, not what they lead to
        return
