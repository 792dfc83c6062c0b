"""From fleet files, ``--set`` and the environment to one `Document`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.overlay import Layers, set_steps
from lbgen.fleet.references import SET, References
from lbgen.fleet.source import Document, read, read_value
from lbgen.problems import Location, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.fleet.source import Source


class Combined(NamedTuple):
    """One document out of many, or None where a file could not be read, and what was wrong."""

    document: Document | None
    problems: list[Problem]
    spoiled: set[Location]
    """Values that are known to be wrong already."""


def combine(sources: Sequence[Source], sets: Sequence[str], environ: Mapping[str, str]) -> Combined:
    """Lay files over one another, then values of ``--set`` on top, then fill in ``${VAR}``."""
    problems: list[Problem] = []
    roots = []
    for source in sources:
        root, found = read(source)
        problems += found
        if root is not None:
            roots.append(root)
    if not roots or len(roots) < len(sources):
        return Combined(None, problems, set())
    layers = Layers(roots[0])
    for root in roots[1:]:
        layers.add(root)
    for text in sets:
        problems += _set(layers, text)
    problems += layers.problems
    spoiled = {problem.location for problem in problems if problem.location}
    references = References(environ)
    if any("$" in text for text in (*(source.text for source in sources), *sets)):
        references.fill(layers.root)
    names = tuple(source.name for source in sources)
    return Combined(
        Document(layers.root, names), problems + references.problems, spoiled | references.spoiled
    )


def _set(layers: Layers, text: str) -> list[Problem]:
    key, equals, value = text.partition("=")
    steps = set_steps(key.strip()) if equals else None
    name = SET + key.strip()
    if steps is None:
        message = f"'{text[:80]}' is not of the form pools.chat.servers[0].weight=2"
        return [Problem("bad-overlay", message, location=Location(name, 1, 1))]
    node, problems = read_value(name, value)
    if node is not None:
        layers.replace(steps, node)
    return problems
