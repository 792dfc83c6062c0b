"""A workload as a YAML file: classes of requests with the distributions of their sizes."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate
from math import exp, log
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fields import INVALID, Choice, Duration, Field, Group, Integer, ListOf, Number, OneOf, Struct, Text
from lbgen.fields.base import bad_value
from lbgen.fleet.text.source import read_values
from lbgen.simulate.load.arrivals import ARRIVALS
from lbgen.simulate.load.closed import Closed
from lbgen.simulate.load.request import Request
from lbgen.simulate.load.workload import Beginnings, Generated

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from random import Random

    from lbgen.fields.base import Node, Value
    from lbgen.problems import Path as Place
    from lbgen.problems import Problem
    from lbgen.simulate.load.workload import Workload

MOST_TOKENS = 1_000_000
NORMAL_P99 = 2.3263
"""The 99 % quantile of the normal distribution."""

_TOKENS = Integer(0, MOST_TOKENS)


class _Bounds(ListOf):
    """``[least, most]``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Integer(0, MOST_TOKENS))

    def read(self, node: Node, path: Place, problems: list[Problem]) -> Value:
        values = super().read(node, path, problems)
        if values is INVALID or INVALID in values:
            return INVALID
        if len(values) != 2 or values[0] > values[1]:
            return bad_value("write [least, most]", node, path, problems)
        return values


class _Spread(Struct):
    """``{median: 300, p99: 4000}``."""

    __slots__ = ()

    def read(self, node: Node, path: Place, problems: list[Problem]) -> Value:
        values = super().read(node, path, problems)
        if values is INVALID or INVALID in values.values() or len(values) < 2:
            return values
        if values["p99"] < values["median"]:
            return bad_value("p99 cannot be below the median", node, path, problems)
        return values


_SIZE = OneOf(
    scalar=_TOKENS,
    mapping=Struct(
        "a distribution of tokens",
        Field("uniform", _Bounds(), doc="Any number from the least to the most."),
        Field("exponential", Number(1, MOST_TOKENS), doc="By its mean."),
        Field(
            "lognormal",
            _Spread(
                "a lognormal distribution",
                Field("median", Number(1, MOST_TOKENS), required=True),
                Field("p99", Number(1, MOST_TOKENS), required=True),
            ),
            doc="By its median and its 99th percentile: what real prompts and answers resemble.",
        ),
        groups=(Group(("uniform", "exponential", "lognormal")),),
    ),
)

_PREFIXES = Struct(
    "common beginnings of prompts",
    Field("count", Integer(1, 1_000_000), required=True, doc="How many there are."),
    Field("tokens", Integer(1, MOST_TOKENS), required=True, doc="Of each, before the prompt itself."),
    Field("skew", Number(0, 10), 0.9, doc="Zipf's exponent: 0 is all alike."),
)

_CLASS = Struct(
    "a class of requests",
    Field("share", Number(0.000001), 1.0, doc="Of the requests, relative to the other classes."),
    Field("prompt", _SIZE, 128, doc="Tokens."),
    Field("output", _SIZE, required=True, doc="Tokens, at least 1."),
    Field("prefixes", _PREFIXES),
    Field("priority", Integer(0, 100), 0),
)

WORKLOAD = Struct(
    "a workload",
    Field("name", Text("a name", pattern="[A-Za-z0-9 _.-]+", limit=60)),
    Field("classes", ListOf(_CLASS, least=1), required=True),
    Field("arrivals", Choice(*ARRIVALS), "poisson"),
    Field("rate", Number(0.000001), doc="Requests a second, where neither --rate nor --load is given."),
    Field(
        "closed_loop",
        Struct(
            "clients that wait",
            Field("clients", Integer(1, 100_000), required=True),
            Field("think", Duration(min=0), 0),
        ),
    ),
    groups=(Group(("rate", "closed_loop"), least=0), Group(("arrivals", "closed_loop"), least=0)),
)


Size = Any
"""A number of tokens, or a distribution as the file has it."""


class Class(NamedTuple):
    """One class of requests, ready to be drawn."""

    prompt: Size
    output: Size
    """Distributions, for `drawn`."""
    beginnings: Beginnings | None
    priority: int

    def make(self, dice: Random, now: float) -> Request:
        """Return a request."""
        prompt, output = drawn(self.prompt, dice), max(1, drawn(self.output, dice))
        if self.beginnings is None:
            return Request(now, prompt, output, priority=self.priority)
        request = self.beginnings.request(dice, now, prompt, output)
        request.priority = self.priority
        return request


class Mixed(Generated):
    """Requests of several classes, as a file says."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        super().__init__({"arrivals": values["arrivals"]})
        self.name = name
        self.own_rate = values["rate"]
        classes = [_CLASS.filled(one) for one in values["classes"]]
        self._classes = [_class(number, one) for number, one in enumerate(classes)]
        self._ladder = list(accumulate(one["share"] for one in classes))

    def make(self, dice: Random, now: float) -> Request:
        """Return one request."""
        number = bisect(self._ladder, dice.random() * self._ladder[-1])
        return self._classes[number].make(dice, now)


def read_workload(path: Path) -> Workload:
    """Return the workload in a file; raises `FleetError` with the place of everything that is wrong."""
    values = read_values(str(path), WORKLOAD)
    mixed = Mixed(values["name"] or path.stem, values)
    loop = values["closed_loop"]
    return Closed(mixed, loop["clients"], loop.get("think", 0) / 1000) if loop else mixed


def _class(number: int, values: Mapping[str, Any]) -> Class:
    prefixes = _PREFIXES.filled(values["prefixes"]) if values["prefixes"] else None
    return Class(
        values["prompt"],
        values["output"],
        Beginnings(f"c{number}p", prefixes["count"], prefixes["tokens"], prefixes["skew"])
        if prefixes
        else None,
        values["priority"],
    )


def drawn(size: Size, dice: Random) -> int:
    """Return tokens drawn from a distribution, given as the file has it (which travels between processes)."""
    if isinstance(size, int):
        return size
    if "uniform" in size:
        least, most = size["uniform"]
        return int(least) + int(dice.random() * (most - least + 1))
    if "exponential" in size:
        return min(MOST_TOKENS, round(dice.expovariate(1 / size["exponential"])))
    median, p99 = size["lognormal"]["median"], size["lognormal"]["p99"]
    tokens: float = median * exp(log(p99 / median) / NORMAL_P99 * dice.gauss(0, 1))
    return min(MOST_TOKENS, round(tokens))
