"""From fleet files, ``--set`` and the environment to one `Document`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.layers.overlay import Layers, set_steps
from lbgen.fleet.layers.references import SET, References
from lbgen.fleet.text.source import Document, read, read_value
from lbgen.problems import Location, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.fleet.text.source import Source
    from lbgen.problems import Path


class Combined(NamedTuple):
    """One document out of many, or None where a file could not be read, and what was wrong."""

    document: Document | None
    problems: list[Problem]
    spoiled: set[Location]
    """Values that are known to be wrong already."""
    removed: Mapping[Path, Location]
    """Where it is written that a key is removed, by the key's path."""


def combine(sources: Sequence[Source], sets: Sequence[str], environ: Mapping[str, str]) -> Combined:
    """Lay files over one another, then values of ``--set`` on top, then fill in ``${VAR}``."""
    problems: list[Problem] = []
    roots = []
    unusable = not sources
    for source in sources:
        root, found = read(source)
        # An overlay that has nothing to say, or comments only, changes nothing.
        if source is not sources[0] and any(problem.code == "empty-file" for problem in found):
            continue
        problems += found
        unusable = unusable or root is None
        roots.append(root)
    if unusable:
        return Combined(None, problems, set(), {})
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
        Document(layers.root, names),
        problems + references.problems,
        spoiled | references.spoiled,
        layers.removed,
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
