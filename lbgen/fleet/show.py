"""The fleet as understood: a fleet file with every default filled in, or the same as JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lbgen.fleet.core_schema import STR, core_tag
from lbgen.fleet.leaves import Leaf, Remark
from lbgen.fleet.written import Tree
from lbgen.problems import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.fleet.source import Document
    from lbgen.model import Fleet
    from lbgen.problems import Path

_COLUMN = 52
"""Where comments begin, if the line is not longer."""
_OLD_BOOLEANS = {"y", "n", "yes", "no", "on", "off"}
"""What YAML 1.1 takes for booleans: quoted for readers other than lbgen."""


def as_yaml(fleet: Fleet, document: Document) -> str:
    """Return a fleet file that gives the same fleet again, with the origin of each value as a comment."""
    head = f"# The fleet {fleet.name} as lbgen understands it (digest {fleet.digest})."
    return "\n".join([head, *_mapping(Tree(document).fleet(fleet), 0)]) + "\n"


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
        name = f"{indent}{_scalar(key)}:"
        if isinstance(value, Remark):
            yield _commented(f"{indent}# {key}: {_flow(_collected(value.tree, (), {}))}", value.text)
        elif isinstance(value, Leaf):
            yield _commented(f"{name} {_flow(value.value)}", value.origin)
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
            yield _commented(f"{indent}- {_flow(values)}", item["address"].origin)
            continue
        first, *rest = _mapping(item, depth + 1)
        yield f"{indent}- {first[len(indent) + 2 :]}"
        yield from rest


def _commented(line: str, origin: str) -> str:
    return f"{line:<{_COLUMN - 2}}  # {origin}"


def _flow(value: Any) -> str:  # noqa: ANN401 - what YAML can say
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:  # noqa: ANN401 - a scalar of YAML
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_/][A-Za-z0-9_./-]*|[0-9]+(?:ms|[smhd]|[KMG]iB)", value)
        if plain and core_tag(value) == STR and value.lower() not in _OLD_BOOLEANS:
            return value
        # JSON's strings are YAML's, but for '$', which begins a reference.
        return json.dumps(value, ensure_ascii=False).replace("$", "$$")
    return json.dumps(value)
