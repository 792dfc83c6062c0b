"""``${VAR}`` in the values of a fleet file: filled in from the environment, after parsing.

A value of the environment stays one scalar, whatever is in it: it cannot bring keys, lists or
comments with it. Without quotes its type is found anew (``weight: ${W}`` is a number), in
quotes it stays a string.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from lbgen.fleet.text.core_schema import FLOAT, INT, STR, core_tag, has_leading_zero, zero_complaint
from lbgen.problems import Location, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Node = Any
"""A PyYAML node (the stubs lack `id`)."""

SET = "--set "
"""What the names of marks begin with that come from the command line."""


@cache
def _reference() -> re.Pattern[str]:
    return re.compile(r"\$\$|\$\{([^}]*)(\}?)")


@cache
def _inside() -> re.Pattern[str]:
    return re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:-|:\?)(.*))?", re.DOTALL)


class References:
    """Fills in the references of a tree of nodes, each node once."""

    __slots__ = ("_environ", "problems", "spoiled")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[Problem] = []
        self.spoiled: set[Location] = set()
        """Where values stand that could not be filled in: there is no use in complaining about them."""

    def fill(self, root: Node) -> None:
        """Fill in every reference below a node, in place."""
        filled = set()
        for node in _scalars(root):
            if "$" in node.value and id(node) not in filled:
                filled.add(id(node))  # an alias makes it stand twice
                self._scalar(node)

    def _scalar(self, node: Node) -> None:
        before = len(self.problems)
        text = _reference().sub(lambda match: self._value(match, node), node.value)
        if len(self.problems) > before:
            self.spoiled.add(_place(node, 0))
        if text == node.value:
            return
        node.value = text
        if node.style or node.tag != STR:
            return
        node.tag = core_tag(text)
        if node.tag in (INT, FLOAT) and has_leading_zero(text):
            self._problem(
                "leading-zero", zero_complaint(text), node, 0, "write it without, or quote the reference"
            )

    def _value(self, match: re.Match[str], node: Node) -> str:
        if match[0] == "$$":
            return "$"
        inside = _inside().fullmatch(match[1])
        if inside is None or not match[2] or "${" in (inside[3] or ""):
            self._malformed(match, node)
            return ""
        name, sign, rest = inside[1], inside[2], inside[3]
        value = self._environ.get(name)
        if value or (value is not None and not sign):
            return value
        if sign == ":-":
            return str(rest)
        message = f"{name} is not set" if value is None else f"{name} is empty"
        if sign == ":?" and rest:
            message = f"{message}: {rest}"
        hint = f"set it in the environment, or give a default: ${{{name}:-…}}"
        self._problem("unset-variable", message, node, match.start(), hint)
        return ""

    def _malformed(self, match: re.Match[str], node: Node) -> None:
        message = f"'{match[0][:40]}' is not ${{VAR}}, ${{VAR:-default}} or ${{VAR:?message}}"
        self._problem("bad-reference", message, node, match.start(), "for a literal dollar sign, write $$")

    def _problem(self, code: str, message: str, node: Node, offset: int, hint: str) -> None:
        place = _place(node, offset)
        self.problems.append(Problem(code, message, hint=hint, location=place))
        self.spoiled.add(_place(node, 0))


def _place(node: Node, offset: int) -> Location:
    """Return where an offset into a scalar stands in the file; its start where that is not certain."""
    start, end = node.start_mark, node.end_mark
    quotes = 1 if node.style in ("'", '"') else 0
    if start.line != end.line or end.column - start.column != len(node.value) + 2 * quotes:
        offset, quotes = 0, 0  # several lines, or escapes
    column = start.column + offset + (quotes if offset else 0)
    return Location(start.name, start.line + 1, column + 1)


def _scalars(root: Node) -> Iterator[Node]:
    """Yield every scalar value (not the keys) below a node; lists and mappings are entered once."""
    seen = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.id == "scalar":
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            below = node.value if node.id == "sequence" else [value for _, value in node.value]
            waiting.extend(reversed(below))
