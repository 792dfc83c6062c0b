"""Kinds of values that hold others: lists, mappings, and choices by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields.base import (
    INVALID,
    NULL,
    Field,
    Kind,
    bad_value,
    label,
    nearest,
    refuse,
    shown,
    wrong_type,
)
from lbgen.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path


KNOWN_KEYS, RENAMED = "known keys: ", "lbgen calls it "
"""How the hint begins for a key that is like no other."""


class ListOf(Kind):
    """A list of values of one kind; with `single`, one value alone is a list of one. Read as a list."""

    __slots__ = ("kind", "least", "single")

    def __init__(self, kind: Kind, single: bool = False, least: int = 0) -> None:
        self.kind, self.single, self.least = kind, single, least

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        read = self.kind.read
        if node.id == "sequence":
            if len(node.value) < self.least:
                return bad_value("the list is empty", node, path, problems)
            return [read(item, (*path, index), problems) for index, item in enumerate(node.value)]
        if self.single and node.tag != NULL:
            return [read(node, path, problems)]
        return wrong_type(self, node, path, problems)

    def schema(self) -> dict[str, Any]:
        item = self.kind.schema()
        items: dict[str, Any] = {"type": "array", "items": item}
        if self.least:
            items["minItems"] = self.least
        return {"anyOf": [item, items]} if self.single else items

    def describe(self) -> str:
        if self.single:
            return f"{self.kind.describe()}, or a list of such"
        return f"a list, each entry {self.kind.describe()}"

    def written(self, value: Value) -> Value:
        return [self.kind.written(item) for item in value]

    def hint(self, node: Node) -> str:
        return "put it in brackets: [ … ]" if node.id == "scalar" else ""


class MapOf(Kind):
    """A mapping whose keys the user chooses; all keys are data, `x-` or not."""

    __slots__ = ("key", "kind", "least")

    def __init__(self, key: Kind, kind: Kind, least: int = 0) -> None:
        self.key, self.kind, self.least = key, kind, least

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.id != "mapping":
            return wrong_type(self, node, path, problems)
        if len(node.value) < self.least:
            return bad_value("the mapping is empty", node, path, problems)
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = (*path, key_node.value)
            before = len(problems)
            key = self.key.read(key_node, place, problems)
            problems[before:] = [problem._replace(on_key=True) for problem in problems[before:]]
            value = self.kind.read(value_node, place, problems)
            if key is not INVALID:
                values[key] = value
        return values

    def schema(self) -> dict[str, Any]:
        names = {key: value for key, value in self.key.schema().items() if key != "type"}
        mapping: dict[str, Any] = {"type": "object", "additionalProperties": self.kind.schema()}
        if names:
            mapping["propertyNames"] = names
        if self.least:
            mapping["minProperties"] = self.least
        return mapping

    def describe(self) -> str:
        return f"a mapping from {self.key.describe()} to {self.kind.describe()}"

    def written(self, value: Value) -> Value:
        return {key: self.kind.written(item) for key, item in value.items()}


class Group(NamedTuple):
    """A rule of a mapping: how many of these keys it has to have, and may have."""

    keys: tuple[str, ...]
    least: int = 1
    most: int = 1


class Struct(Kind):
    """A mapping with fixed keys. Read as a dictionary of what was written; refused values are `INVALID`.

    `shorthand` names the field that a value alone stands for (``strategy: least_conn``).
    """

    __slots__ = ("by_name", "defaults", "fields", "groups", "shorthand", "what")

    def __init__(
        self, what: str, *fields: Field, shorthand: str = "", groups: tuple[Group, ...] = ()
    ) -> None:
        self.what, self.fields, self.shorthand, self.groups = what, fields, shorthand, groups
        self.by_name = {field.name: field for field in fields}
        self.defaults = {field.name: field.default for field in fields}

    def filled(self, values: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what was written over the defaults; a refused value gives way to its default."""
        if not values:
            return dict(self.defaults)
        return self.defaults | {key: value for key, value in values.items() if value is not INVALID}

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.id != "mapping":
            return self._short(node, path, problems)
        values: dict[str, Any] = {}
        by_name = self.by_name
        strange = False
        for key_node, value_node in node.value:
            name = key_node.value
            field = by_name.get(name)
            if field is not None:
                values[name] = field.kind.read(value_node, (*path, name), problems)
            elif not name.startswith("x-"):
                strange = True
                self._unknown(key_node, value_node, path, problems)
        # A key that is unknown is most likely the one that is missing: one mistake, one problem.
        if not strange:
            self._complain_about_missing(values, node, path, problems)
        for group in self.groups:
            _complain_about_conflict(group, values, node, path, problems)
        return values

    def _complain_about_missing(
        self, values: Mapping[str, Value], node: Node, path: Path, problems: list[Problem]
    ) -> None:
        for field in self.fields:
            if field.required and field.name not in values:
                message = f"{label(path)} needs the key '{field.name}'"
                refuse(problems, node, Problem("missing-key", message, path, hint=field.doc))
        for group in self.groups:
            if sum(key in values for key in group.keys) < group.least:
                keys = ", ".join(f"'{key}'" for key in group.keys)
                message = f"{label(path)} needs one of the keys {keys}"
                refuse(problems, node, Problem("missing-key", message, path))

    def _short(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if not self.shorthand or node.tag == NULL:
            return wrong_type(self, node, path, problems)
        value = self.by_name[self.shorthand].kind.read(node, path, problems)
        return value if value is INVALID else {self.shorthand: value}

    def _unknown(self, key_node: Node, value_node: Node, path: Path, problems: list[Problem]) -> None:
        name = key_node.value
        where = f"in {label(path)}" if path else "at the top of the file"
        message = f"there is no key '{shown(name)}' {where}"
        hint = self.suggestion(name, value_node)
        refuse(problems, key_node, Problem("unknown-key", message, (*path, name), hint=hint, on_key=True))

    def suggestion(self, name: str, value: Node) -> str:  # noqa: ARG002 - for those who know more
        """Return what a key that is unknown was probably meant to be."""
        for field in self.fields:
            if name.lower() in field.instead_of:
                return f"{RENAMED}'{field.name}'"
        likely = nearest(name, self.by_name)
        return f"did you mean '{likely}'?" if likely else KNOWN_KEYS + ", ".join(self.by_name)

    def schema(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {
            "title": self.what,
            "type": "object",
            "properties": {field.name: _field_schema(field) for field in self.fields},
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
        }
        required = [field.name for field in self.fields if field.required]
        if required:
            mapping["required"] = required
        conditions = [condition for group in self.groups for condition in _group_schema(group)]
        if conditions:
            mapping["allOf"] = conditions
        if not self.shorthand:
            return mapping
        return {"anyOf": [self.by_name[self.shorthand].kind.schema(), mapping]}

    def describe(self) -> str:
        if self.shorthand:
            return f"{self.by_name[self.shorthand].kind.describe()}, or a mapping"
        return f"a mapping ({self.what})" if self.what else "a mapping"

    def written(self, value: Value) -> Value:
        return {
            name: self.by_name[name].kind.written(item) for name, item in value.items() if item is not None
        }

    def hint(self, node: Node) -> str:
        if node.id != "scalar":
            return ""
        return "write the keys below it, each on a line of its own: " + ", ".join(list(self.by_name)[:6])


def _complain_about_conflict(
    group: Group, values: Mapping[str, Value], node: Node, path: Path, problems: list[Problem]
) -> None:
    there = [key for key in group.keys if key in values]
    if len(there) <= group.most:
        return
    last = next(key_node for key_node, _ in reversed(node.value) if key_node.value in there)
    other = next(key for key in there if key != last.value)
    message = f"{label(path)} has both '{other}' and '{last.value}': write one of them"
    refuse(problems, last, Problem("conflicting-keys", message, (*path, last.value), on_key=True))


def _group_schema(group: Group) -> list[dict[str, Any]]:
    there = [{"required": [key]} for key in group.keys]
    conditions: list[dict[str, Any]] = [{"anyOf": there}] if group.least else []
    if group.most == 1:
        pairs = [(one, other) for at, one in enumerate(group.keys) for other in group.keys[at + 1 :]]
        conditions += [{"not": {"required": list(pair)}} for pair in pairs]
    return conditions


def _field_schema(field: Field) -> dict[str, Any]:
    described: dict[str, Any] = {"description": field.doc} if field.doc else {}
    if field.unit:
        described["description"] = f"{field.doc} ({field.unit})"
    if field.default is not None:
        described["default"] = field.kind.written(field.default)
    elif field.default_doc:
        described["description"] = f"{described.get('description', '')} Default: {field.default_doc}."
    if field.example is not None:
        described["examples"] = [field.example]
    return described | field.kind.schema()
