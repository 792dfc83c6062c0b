"""The fleet as understood: a fleet file with every default filled in, or the same as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lbgen.fleet.text.yaml_flow import flow, scalar
from lbgen.fleet.written.leaves import Leaf, Remark
from lbgen.fleet.written.written import Tree
from lbgen.problems import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.fleet.text.source import Document
    from lbgen.model import Fleet
    from lbgen.problems import Path

_COLUMN = 52
"""Where comments begin, if the line is not longer."""


def as_yaml(fleet: Fleet, document: Document) -> str:
    """Return a fleet file that gives the same fleet again, with the origin of each value as a comment."""
    head = f"# The fleet {fleet.name} as lbgen understands it (digest {fleet.digest})."
    return "\n".join([head, *_mapping(Tree(document).fleet(fleet), 0)]) + "\n"


def shown_values(fleet: Fleet, document: Document) -> dict[str, Any]:
    """Return the fleet with every default filled in, as plain values under the keys of the fleet file."""
    values: dict[str, Any] = _collected(Tree(document).fleet(fleet), (), {})
    return values


def as_json(fleet: Fleet, document: Document) -> str:
    """Return the fleet, and by path where each of its values came from."""
    origins: dict[str, str] = {}
    values = _collected(Tree(document).fleet(fleet), (), origins)
    return json.dumps({"fleet": values, "origins": origins}, indent=2, ensure_ascii=False)


def _collected(tree: Any, path: Path, origins: dict[str, str]) -> Any:  # noqa: ANN401 - a tree of leaves
    """Return the values of a tree, and note their origins."""
    if isinstance(tree, Leaf):
        origins[path_text(path)] = tree.origin
        return tree.value
    if isinstance(tree, Remark):
        return _collected(tree.tree, path, origins)
    if isinstance(tree, dict):
        return {key: _collected(value, (*path, key), origins) for key, value in tree.items()}
    return [_collected(item, (*path, index), origins) for index, item in enumerate(tree)]


def _mapping(tree: dict[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in tree.items():
        name = f"{indent}{scalar(key)}:"
        if isinstance(value, Remark):
            yield _commented(f"{indent}# {key}: {flow(_collected(value.tree, (), {}))}", value.text)
        elif isinstance(value, Leaf):
            yield _commented(f"{name} {flow(value.value)}", value.origin)
        elif not value:
            yield f"{name} {'{}' if isinstance(value, dict) else '[]'}"
        else:
            yield name
            below = (
                _mapping(value, depth + 1) if isinstance(value, dict) else _sequence(value, depth + 1, key)
            )
            yield from below


def _sequence(items: list[dict[str, Any]], depth: int, key: str) -> Iterator[str]:
    indent = "  " * depth
    for item in items:
        if key == "servers":
            # One line a server: there may be thousands.
            values = {name: leaf.value for name, leaf in item.items()}
            yield _commented(f"{indent}- {flow(values)}", item["address"].origin)
            continue
        first, *rest = _mapping(item, depth + 1)
        yield f"{indent}- {first[len(indent) + 2 :]}"
        yield from rest


def _commented(line: str, origin: str) -> str:
    return f"{line:<{_COLUMN - 2}}  # {origin}"
