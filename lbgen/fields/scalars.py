"""Kinds of single values: texts, numbers, choices."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from lbgen.fields.base import (
    BOOL,
    FLOAT,
    INT,
    INVALID,
    MAX_TEXT,
    STR,
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
    from collections.abc import Callable, Mapping

    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern; at first use, because start-up should not pay for it."""
    return re.compile(pattern)


class Text(Kind):
    """A string on one line. `pattern` has to match all of it; `parse` refuses it or makes a value of it."""

    __slots__ = ("limit", "numbers", "parse", "pattern", "what")

    def __init__(
        self,
        what: str = "a string",
        pattern: str = "",
        parse: Callable[[str], Any] | None = None,
        numbers: bool = False,
        limit: int = MAX_TEXT,
    ) -> None:
        self.what, self.pattern, self.parse, self.numbers, self.limit = what, pattern, parse, numbers, limit

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        tag = node.tag
        if tag != STR and not (self.numbers and tag == INT):
            return wrong_type(self, node, path, problems)
        text = node.value
        if len(text) > self.limit or not text.isprintable():
            reason = unsafe(text, self.limit)
            if reason:
                return refuse(problems, node, Problem("unsafe-text", f"{label(path)} {reason}", path))
        if tag == INT and has_leading_zero(text):
            return INVALID
        try:
            return self._value(text)
        except ValueError as error:
            return bad_value(shown(str(error), 300), node, path, problems)

    def _value(self, text: str) -> Value:
        if self.pattern and not compiled(self.pattern).fullmatch(text):
            raise ValueError(f"'{shown(text)}' is not {self.what}")
        return text if self.parse is None else self.parse(text)

    def schema(self) -> dict[str, Any]:
        text: dict[str, Any] = {"type": "string", "maxLength": self.limit}
        if self.pattern:
            text["pattern"] = f"^(?:{self.pattern})$"
        if not self.numbers:
            return text
        return {"anyOf": [{"type": "integer", "minimum": 0}, text]}

    def describe(self) -> str:
        return self.what

    def hint(self, node: Node) -> str:
        if node.tag in (INT, FLOAT, BOOL):
            return f'quote it: "{shown(node.value)}"'
        if node.id == "sequence":
            return "brackets make a list in YAML: quote a value that has brackets"
        return ""


def has_leading_zero(text: str) -> bool:
    """Tell whether a number has one, which the reader of the source has refused already."""
    digits = text.lstrip("+-")
    return digits[:1] == "0" and digits[1:2].isdigit()


def unsafe(text: str, limit: int = MAX_TEXT) -> str:
    """Return why a text is refused whatever it is for, or an empty string.

    Control characters and line ends could leave the line that they are written on; marks
    that change the reading direction let a file look different from what it says.
    """
    if len(text) > limit:
        return f"has {len(text)} characters; the maximum is {limit}"
    for position, character in enumerate(text):
        if not character.isprintable() and _is_unsafe(ord(character)):
            return (
                f"has the character U+{ord(character):04X} at position {position + 1}, which is not allowed"
            )
    return ""


def _is_unsafe(code: int) -> bool:
    return (
        code < 0x20
        or 0x7F <= code <= 0x9F
        or code in (0x61C, 0x200E, 0x200F, 0xFEFF, 0xFFFE, 0xFFFF)
        or 0x2028 <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
        or 0xD800 <= code <= 0xDFFF
    )


class Integer(Kind):
    """A whole number in decimal digits."""

    __slots__ = ("max", "min")

    def __init__(self, min: int = 0, max: int = 2_147_483_647) -> None:  # noqa: A002 - as one says it
        self.min, self.max = min, max

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.tag != INT:
            return wrong_type(self, node, path, problems)
        text = node.value
        if has_leading_zero(text):
            return INVALID
        number = text[1:] if text[0] == "-" else text
        # 0x1F90 is a number in YAML, but hardly what a port looks like.
        if not number.isdecimal() or not number.isascii():
            return bad_value(f"'{shown(text)}' is not in plain decimal digits", node, path, problems)
        if len(number) > 18 or not self.min <= int(text) <= self.max:
            message = f"{shown(text)} is out of range: it must be {self._limits()}"
            return bad_value(message, node, path, problems)
        return int(text)

    def _range(self) -> str:
        if self.max == 2_147_483_647:
            return f"{self.min} or more"
        return self._limits()

    def _limits(self) -> str:
        return str(self.min) if self.min == self.max else f"from {self.min} to {self.max}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.min, "maximum": self.max}

    def describe(self) -> str:
        return f"a whole number, {self._range()}".replace(", from", " from")

    def hint(self, node: Node) -> str:
        if node.tag == STR and node.value.isdecimal():
            return f"write it without quotes: {shown(node.value)}"
        return ""


class AutoInteger(Integer):
    """A whole number, or ``auto`` (None)."""

    __slots__ = ()

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.tag == STR and node.value == "auto":
            return None
        return super().read(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"const": "auto"}, super().schema()]}

    def describe(self) -> str:
        return f"auto, or {super().describe()}"


class Number(Kind):
    """A number that may have decimals."""

    __slots__ = ("max", "min")

    def __init__(self, min: float = 0, max: float = 1_000_000) -> None:  # noqa: A002 - as one says it
        self.min, self.max = min, max

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.tag not in (INT, FLOAT):
            return wrong_type(self, node, path, problems)
        if not compiled(r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?").fullmatch(node.value):
            return bad_value(f"'{shown(node.value)}' is not a plain decimal number", node, path, problems)
        if not self.min <= float(node.value) <= self.max:
            message = f"{node.value} is not from {self.min} to {self.max}"
            return bad_value(message, node, path, problems)
        return float(node.value)

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.min, "maximum": self.max}

    def describe(self) -> str:
        return f"a number from {self.min} to {self.max}"


class Boolean(Kind):
    """``true`` or ``false``, and nothing that only looks like it."""

    __slots__ = ()

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        if node.tag != BOOL:
            return wrong_type(self, node, path, problems)
        return bool(node.value.lower() == "true")

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def describe(self) -> str:
        return "true or false"

    def hint(self, node: Node) -> str:
        answers = {
            "true": "true",
            "yes": "true",
            "on": "true",
            "false": "false",
            "no": "false",
            "off": "false",
        }
        answer = answers.get(node.value.lower()) if node.id == "scalar" else None
        return f"write {answer}, without quotes" if answer else ""


class Choice(Kind):
    """One word of a few; `aliases` are accepted and become the word they stand for."""

    __slots__ = ("aliases", "values")

    def __init__(self, *values: str, aliases: Mapping[str, str] | None = None) -> None:
        self.values, self.aliases = values, aliases or {}

    def read(self, node: Node, path: Path, problems: list[Problem]) -> Value:
        text = node.value
        if node.tag != STR and not (node.tag == INT and text in self.values):
            return wrong_type(self, node, path, problems)
        if text in self.values:
            return text
        if text in self.aliases:
            return self.aliases[text]
        likely = nearest(text, (*self.aliases, *self.values))  # where two are alike, the later one counts
        likely = self.aliases.get(likely, likely)
        message = f"'{shown(text)}' is not {self.describe()}"
        return bad_value(message, node, path, problems, f"did you mean '{likely}'?" if likely else "")

    def schema(self) -> dict[str, Any]:
        numbers = [int(value) for value in self.values if value.isdecimal()]
        return {"enum": [*self.values, *self.aliases, *numbers]}

    def describe(self) -> str:
        if len(self.values) == 1:
            return f"'{self.values[0]}'"
        return "one of " + ", ".join(self.values)

    def hint(self, node: Node) -> str:
        return f'quote it: "{shown(node.value)}"' if node.tag in (FLOAT, BOOL) else ""
