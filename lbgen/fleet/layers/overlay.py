"""Laying fleet files over one another, and single values from the command line on top.

Nodes are never changed, because an alias makes one node stand in several places: what
differs is built anew around what stays. Every node keeps its mark, so a problem in the
result points into the file that won.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yaml import MappingNode, ScalarNode, SequenceNode

from lbgen.fleet.text.core_schema import MAP, NULL, SEQ, STR
from lbgen.fleet.text.soundness import APPEND
from lbgen.fleet.text.source import location_of
from lbgen.problems import Problem, path_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.problems import Location, Path

Node = Any
"""A PyYAML node (the stubs lack `id`)."""

_SHORTHANDS = {
    ("balancers",): "count",
    ("pools", "*", "strategy"): "name",
    ("pools", "*", "servers", 0): "address",
}
"""Where one value stands for a mapping with this key alone."""


class Layers:
    """Fleet files laid over one another, from the first to the last."""

    __slots__ = ("problems", "removed", "root")

    def __init__(self, root: Node) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.removed: dict[Path, Location] = {}
        """Where it is written that a key is removed, by the key's path."""

    def add(self, over: Node) -> None:
        """Lay another file over what there is: mappings by key, anything else replaced."""
        self.root = self._mapping(self.root, over, ())

    def replace(self, steps: Path, value: Node) -> None:
        """Set one value, as ``--set`` does."""
        changed = self._replaced(self.root, steps, value, ())
        if changed is not None:
            self.root = changed

    def _laid(self, base: Node | None, over: Node, path: Path) -> Node:
        if over.id == "sequence" and over.tag == APPEND:
            return self._extended(base, over, path)
        key = _shorthand(path)
        if key == "name":
            return self._strategy(base, over, path)
        if base is not None and key and over.id == "mapping" and _is_value(base):
            base = _long_form(base, key)
        if over.id == "mapping":
            return self._mapping(base if base is not None and base.id == "mapping" else None, over, path)
        return over

    def _mapping(self, base: Node | None, over: Node, path: Path) -> Node:
        pairs = {} if base is None else {pair[0].value: pair for pair in base.value}
        for key, value in over.value:
            name = key.value
            if _is_null(value):
                if pairs.pop(name, None):
                    self.removed[(*path, name)] = location_of(key)
                continue
            old_key, old = pairs.get(name, (key, None))
            new = self._laid(old, value, (*path, name))
            pairs[name] = (old_key if new.id == "mapping" else key, new)
        return _mapping(pairs.values(), over if base is None else base)

    def _strategy(self, base: Node | None, over: Node, path: Path) -> Node:
        """Lay strategies over each other: parameters of one make no sense to another."""
        over = _long_form(over, "name") if _is_value(over) else over
        base = _long_form(base, "name") if base is not None and _is_value(base) else base
        if over.id != "mapping" or base is None or base.id != "mapping":
            return self._mapping(None, over, path) if over.id == "mapping" else over
        name = _get(over, "name")
        old = _get(base, "name")
        same = name is None or (old is not None and old.value == name.value)
        return self._mapping(base if same else None, over, path)

    def _extended(self, base: Node | None, over: Node, path: Path) -> Node:
        before = [] if base is None or base.tag == NULL else [base]
        if base is not None and base.id == "sequence":
            before = base.value
        elif base is not None and base.id == "mapping":
            message = f"'!append' extends a list, and {path_text(path)} is a mapping in the file below"
            self._refuse(message, over, path)
        return SequenceNode(SEQ, [*before, *over.value], over.start_mark, over.end_mark, over.flow_style)

    def _replaced(self, node: Node | None, steps: Path, value: Node, path: Path) -> Node | None:
        """Return a node with one value in it replaced; None where that is not possible."""
        if not steps:
            return self._laid(node, value, path) if _is_append(value) or _is_value(value) else value
        if isinstance(steps[0], int):
            return self._in_list(node, steps[0], steps[1:], value, path)
        if node is not None and _is_value(node) and _shorthand(path):
            node = _long_form(node, _shorthand(path))
        if node is not None and node.id != "mapping" and node.tag != NULL:
            kind = "a list" if node.id == "sequence" else "a single value"
            self._refuse(f"{path_text(path)} is {kind}, and has no keys", value, path)
            return None
        pairs = {} if node is None or node.tag == NULL else {pair[0].value: pair for pair in node.value}
        key, rest = _next_key(pairs, steps)
        old_key, old = pairs.get(key, (None, None))
        if not rest and _is_null(value):
            if pairs.pop(key, None):
                self.removed[(*path, key)] = location_of(value)
        else:
            new = self._replaced(old, rest, value, (*path, key))
            if new is None:
                return None
            pairs[key] = (old_key or ScalarNode(STR, key, value.start_mark, value.end_mark), new)
        return _mapping(pairs.values(), node or value)

    def _in_list(self, node: Node | None, index: int, steps: Path, value: Node, path: Path) -> Node | None:
        items = list(node.value) if node is not None and node.id == "sequence" else []
        if node is not None and _is_value(node):
            items = [node]
        if index >= len(items):
            message = f"there is no {path_text((*path, index))}: {path_text(path)} has {len(items)} entries"
            self._refuse(message, value, path)
            return None
        new = self._replaced(items[index], steps, value, (*path, index))
        if new is None:
            return None
        items[index] = new
        holder = node or value
        return SequenceNode(SEQ, items, holder.start_mark, holder.end_mark, flow_style=False)

    def _refuse(self, message: str, node: Node, path: Path) -> None:
        self.problems.append(Problem("bad-overlay", message, path, location=location_of(node)))


def set_steps(text: str) -> Path | None:
    """Return the steps of ``pools.chat.servers[0].weight``; None where it is not of that form.

    A name with dots in it may stand in double quotes; where it is there already it need not.
    """
    word = re.compile(r'\[([0-9]{1,6})\]|(?:^|(?<=.)\.)(?:"([^"]+)"|([^."\[\]]+))')
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = word.match(text, position)
        if match is None or (match[1] and not steps):
            return None
        steps.append(int(match[1]) if match[1] else match[2] or match[3])
        position = match.end()
    return tuple(steps) or None


def _next_key(pairs: dict[str, Any], steps: Path) -> tuple[str, Path]:
    """Return the longest key that the next steps spell, joined by dots, and the steps that are left."""
    words: list[str] = []
    for step in steps:
        if not isinstance(step, str):
            break
        words.append(step)
    for count in range(len(words), 1, -1):
        if ".".join(words[:count]) in pairs:
            return ".".join(words[:count]), steps[count:]
    return words[0], steps[1:]


def _shorthand(path: Path) -> str:
    pattern = tuple(0 if isinstance(step, int) else step for step in path)
    if pattern[:1] == ("pools",) and len(pattern) > 1:
        pattern = ("pools", "*", *pattern[2:])
    return _SHORTHANDS.get(pattern, "")


def _get(node: Node, name: str) -> Node | None:
    return next((value for key, value in node.value if key.value == name), None)


def _is_value(node: Node) -> bool:
    return bool(node.id == "scalar" and node.tag != NULL)


def _is_append(node: Node) -> bool:
    return bool(node.id == "sequence" and node.tag == APPEND)


def _is_null(node: Node) -> bool:
    """Tell whether ``null`` is written; a value left out by accident removes nothing."""
    return bool(node.tag == NULL and node.value)


def _long_form(node: Node, key: str) -> Node:
    key_node = ScalarNode(STR, key, node.start_mark, node.end_mark)
    return MappingNode(MAP, [(key_node, node)], node.start_mark, node.end_mark, flow_style=True)


def _mapping(pairs: Iterable[tuple[Node, Node]], like: Node) -> Node:
    return MappingNode(MAP, list(pairs), like.start_mark, like.end_mark, flow_style=False)
