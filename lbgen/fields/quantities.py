"""Kinds of amounts with a unit: durations, sizes, rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fields.base import FLOAT
from lbgen.fields.scalars import Text
from lbgen.units import Rate, format_duration, format_size, parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    from lbgen.fields.base import Node, Value


class Duration(Text):
    """A time, read as milliseconds; a bare number is seconds. Bounds in milliseconds."""

    __slots__ = ("max", "min")

    def __init__(self, min: int = 1, max: int = 0) -> None:  # noqa: A002 - as one says it
        super().__init__(
            "a duration such as 250ms, 90s, 10m or 1h", numbers=True, limit=64, parse=self._bounded
        )
        self.min, self.max = min, max

    def _bounded(self, text: str) -> int:
        value = parse_duration(text)
        if value < self.min:
            raise ValueError(f"'{text}' is too short: the minimum is {format_duration(self.min)}")
        if self.max and value > self.max:
            raise ValueError(f"'{text}' is too long: the maximum is {format_duration(self.max)}")
        return value

    def schema(self) -> dict[str, Any]:
        least = 1 if self.min else 0
        text = {"type": "string", "pattern": r"^[0-9]{1,12}(ms|s|m|h|d)?$"}
        return {"anyOf": [{"type": "integer", "minimum": least}, text]}

    def written(self, value: Value) -> Value:
        return format_duration(value)

    def hint(self, node: Node) -> str:
        return "write a whole number with ms, s, m, h or d" if node.tag == FLOAT else ""


class Size(Text):
    """An amount of bytes; bounds in bytes."""

    __slots__ = ("max", "min")

    def __init__(self, min: int = 1, max: int = 1024**4) -> None:  # noqa: A002 - as one says it
        super().__init__("a size such as 512KiB, 64MiB or 1GiB", numbers=True, limit=64, parse=self._bounded)
        self.min, self.max = min, max

    def _bounded(self, text: str) -> int:
        value = parse_size(text)
        if not self.min <= value <= self.max:
            bounds = f"{format_size(self.min)} to {format_size(self.max)}"
            raise ValueError(f"'{text}' is not within the range of {bounds}")
        return value

    def schema(self) -> dict[str, Any]:
        text = {"type": "string", "pattern": r"^[0-9]{1,15} ?([kKmMgG]([iI]?[bB])?|[bB])?$"}
        return {"anyOf": [{"type": "integer", "minimum": self.min, "maximum": self.max}, text]}

    def written(self, value: Value) -> Value:
        return format_size(value)


class RateKind(Text):
    """So many requests in so much time."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("a rate such as 10/s, 600/m or 1000/h", limit=64, parse=parse_rate)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^0*[1-9][0-9]{0,8}/(s|m|h)$"}

    def written(self, value: Rate) -> Value:
        return str(value)
