"""Numbers and names in NGINX's spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.spec import Syntax
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def duration(milliseconds: int) -> Syntax:
    """Return a time with its unit."""
    return Syntax(format_duration(milliseconds))


def seconds(milliseconds: int) -> Syntax:
    """Return a time in whole seconds, rounded up, for directives that take no less."""
    return Syntax(format_duration(-(-milliseconds // 1_000) * 1_000))


def size(octets: int) -> Syntax:
    """Return a size in the largest unit that is exact; NGINX knows `k` and `m` alone here, no `g`."""
    for unit, factor in (("m", 1024**2), ("k", 1024)):
        if octets and octets % factor == 0:
            return Syntax(f"{octets // factor}{unit}")
    return Syntax(octets)


def slug(name: str, keep: str = "") -> str:
    """Return a name of lower-case letters, digits, `-`, and what is to be kept."""
    text = "".join(
        character if character.isascii() and (character.isalnum() or character in keep) else "-"
        for character in name
    )
    return text.lower().strip("-") or "x"


def slugs(names: Iterable[str], keep: str = "") -> Mapping[str, Syntax]:
    """Return each name's slug, unique among them, also as variables; a later one gets a number."""
    taken: set[str] = set()
    made: dict[str, Syntax] = {}
    for name in names:
        base = candidate = slug(name, keep)
        number = 2
        while variable(candidate) in taken:
            candidate = f"{base}-{number}"
            number += 1
        taken.add(variable(candidate))
        made[name] = Syntax(candidate)
    return made


def unique(names: Iterable[str]) -> tuple[Syntax, ...]:
    """Return a slug for each, in order, no two alike even for equal names."""
    return tuple(slugs(f"{name}{' ' * number}" for number, name in enumerate(names)).values())


def variable(name: str) -> str:
    """Return a slug as part of a variable's name."""
    return name.replace("-", "_")
