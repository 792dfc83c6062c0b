"""Kinds that depend on what is written: on its shape, on one of its keys, or on nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fields.base import BOOL, INVALID, NULL, STR, Kind, bad_value, label, refuse, shown, wrong_type
from lbgen.fields.scalars import unsafe
from lbgen.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.fields.base import Node, Value
    from lbgen.fields.composites import Struct
    from lbgen.problems import Path


class OneOf(Kind):
    """A value whose shape decides its kind: scalar, list or mapping; with `off` also ``false`` (None)."""

    __slots__ = ("mapping", "off", "scalar", "sequence")

    def __init__(
        self,
        scalar: Kind | None = None,
        mapping: Kind | None = None,
        sequence: Kind | None = None,
        off: bool = False,
    ) -> None:
        self.scalar, self.mapping, self.sequence, self.off = scalar, mapping, sequence, off

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.id == "mapping":
            kind = self.mapping
        elif node.id == "sequence":
            kind = self.sequence
        elif self.off and node.tag == BOOL and node.value.lower() == "false":
            return None
        else:
            kind = self.scalar
        if kind is None or node.tag == NULL or _switch(self, node):
            return wrong_type(self, node, path, problems)
        return kind.read(node, path, problems)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All kinds that it may be."""
        return tuple(kind for kind in (self.scalar, self.mapping, self.sequence) if kind is not None)

    def schema(self) -> dict[str, Any]:
        off = [{"const": False}] if self.off else []
        return {"anyOf": off + [kind.schema() for kind in self.kinds]}

    def describe(self) -> str:
        words = ["false"] if self.off else []
        return ", or ".join([*words, *(kind.describe() for kind in self.kinds)])

    def written(self, value: Value) -> Value:
        if value is None:
            return False
        kind = self.scalar
        if isinstance(value, dict | list):
            kind = self.mapping if isinstance(value, dict) else self.sequence
        return value if kind is None else kind.written(value)

    def hint(self, node: Node) -> str:
        return _switch(self, node) or next((hint for kind in self.kinds if (hint := kind.hint(node))), "")


def _switch(kind: OneOf, node: Node) -> str:
    """Return what to write in place of a word that switches something on or off; empty for other values."""
    if not kind.off or node.id != "scalar":
        return ""
    word = node.value.lower()
    if word in {"true", "yes", "on"}:
        return "remove the key: this is on by default" if kind.mapping else ""
    return "write false, without quotes" if word in {"false", "no", "off"} else ""


class Variants(Kind):
    """A mapping whose `key` decides which other keys there are; the key's value alone will do."""

    __slots__ = ("choice", "key", "structs")

    def __init__(self, key: str, choice: Kind, structs: Mapping[str, Struct]) -> None:
        self.key, self.choice, self.structs = key, choice, structs

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.id != "mapping":
            name = self.choice.read(node, path, problems)
            return name if name is INVALID else {self.key: name}
        named = next((value for key, value in node.value if key.value == self.key), None)
        if named is None:
            message = f"{label(path)} needs the key '{self.key}'"
            return refuse(problems, node, Problem("missing-key", message, path))
        name = self.choice.read(named, (*path, self.key), problems)
        return name if name is INVALID else self.structs[name].read(node, path, problems) | {self.key: name}

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.choice.schema(), *(struct.schema() for struct in self.structs.values())]}

    def describe(self) -> str:
        return f"{self.choice.describe()}, or a mapping with the key '{self.key}'"

    def hint(self, node: Node) -> str:
        return self.choice.hint(node)


class Anything(Kind):
    """Data of the user's own, kept as it is: what JSON can say."""

    __slots__ = ()

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        before = len(problems)
        data = self._data(node, path, problems)
        return data if len(problems) == before else INVALID

    def _data(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.id == "mapping":
            return {key.value: self._data(value, (*path, key.value), problems) for key, value in node.value}
        if node.id == "sequence":
            return [self._data(item, (*path, index), problems) for index, item in enumerate(node.value)]
        return _plain(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {}

    def describe(self) -> str:
        return "any data"


def _plain(node: Node, path: Path, problems: list[Problem]) -> Value:
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() == "true"
    try:
        number = {"int": int, "float": float}[kind](node.value) if kind in ("int", "float") else None
    except ValueError:
        message = f"'{shown(node.value)}' is not a decimal number"
        return bad_value(message, node, path, problems, "quote it")
    if number is not None:
        return number
    reason = unsafe(node.value)
    if node.tag == STR and not reason:
        return node.value
    message = f"{label(path)} {reason or 'has an unknown type'}"
    return refuse(problems, node, Problem("unsafe-text", message, path))
