"""A draft as the text of a fleet file."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lbgen.fleet.text.yaml_flow import flow, scalar
from lbgen.imports.draft import Said
from lbgen.imports.secrets import masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.imports.draft import Tree

_WIDTH = 110


def fleet_text(tree: Tree, head: Iterable[str], *, origins: bool) -> str:
    """Return a fleet file. `origins`: each value says behind it where it comes from."""
    lines = [*(comment(line) for line in head), *_mapping(tree, 0, origins)]
    return "\n".join(lines) + "\n"


def comment(text: str) -> str:
    """Return a line of others as a comment, which cannot end it or silence a rule."""
    plain = "".join(one if one.isprintable() else " " for one in text).strip()
    plain = re.sub(r"(?i)lbgen\s*:\s*ignore", "lbgen ignore", plain)
    return f"# {plain}" if plain else "#"


def _mapping(tree: Tree, depth: int, origins: bool) -> Iterator[str]:
    indent = "  " * depth
    for number, (key, value) in enumerate(tree.items()):
        if depth == 0 and number and not isinstance(value, Said):
            yield ""
        name = f"{indent}{scalar(key)}:"
        if isinstance(value, Said):
            yield from _line(indent, f"{name} {flow(value.value)}", value, origins)
        elif not value:
            yield f"{name} {'{}' if isinstance(value, dict) else '[]'}"
        else:
            yield name
            below = _mapping if isinstance(value, dict) else _sequence
            yield from below(value, depth + 1, origins)


def _sequence(items: list[Said], depth: int, origins: bool) -> Iterator[str]:
    indent = "  " * depth
    for item in items:
        yield from _line(indent, f"{indent}- {flow(item.value)}", item, origins)


def _line(indent: str, line: str, said: Said, origins: bool) -> Iterator[str]:
    for text in said.above:
        yield f"{indent}{comment(masked(text))}"
    behind = [masked(said.beside)] if said.beside else []
    if origins and said.place is not None:
        behind.append(f"{PurePath(said.place.file).name}:{said.place.line}")
    if not behind:
        yield line
    elif len(line) + len("; ".join(behind)) < _WIDTH:
        yield f"{line}  {comment('; '.join(behind))}"
    else:
        yield f"{indent}{comment('; '.join(behind))}"
        yield line


def paths(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Said]]:  # noqa: ANN401 - any part of a tree
    """Yield every value of a draft with its path in the fleet file."""
    if isinstance(tree, Said):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from paths(value, (*path, key))
    else:
        for index, item in enumerate(tree):
            yield from paths(item, (*path, index))
