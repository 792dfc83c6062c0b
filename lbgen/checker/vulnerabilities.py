"""Known vulnerabilities of the program that checks a fleet, as far as the fleet's files reach them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from lbgen.problems import Problem, warning
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CODE = "known-vulnerability"
DATA = Path(__file__).with_suffix(".yaml")


class Vulnerability(NamedTuple):
    """One entry of the data file, which says what its keys mean."""

    id: str
    program: str
    what: str
    affected: tuple[tuple[Version, Version], ...]
    fixed: tuple[str, ...]
    uses: tuple[re.Pattern[str], ...]
    used: str
    debian: tuple[str, ...]
    source: str

    def concerns(self, version: Version, text: str) -> bool:
        """Tell whether this version has it, and a configuration reaches it."""
        has = any(first <= version <= last for first, last in self.affected)
        return has and all(pattern.search(text) for pattern in self.uses)

    def mended_in(self, package: str) -> str:
        """Return which package of the same line has the fix; empty when that is not known."""
        line, _ = _revision(package)
        return next((fixed for fixed in self.debian if _revision(fixed)[0] == line), "")

    def mended(self, package: str) -> bool | None:
        """Tell whether a distribution's package has the fix; None when that is not known."""
        since, number = _revision(self.mended_in(package))[1], _revision(package)[1]
        return None if since is None or number is None else number >= since


def _revision(package: str) -> tuple[str, int | None]:
    """Return ``1.22.1-9+deb12u`` and 11 for ``1.22.1-9+deb12u11``; None for other forms."""
    match = re.fullmatch(r"(.*\+deb\d+u)(\d+)(?:\+.*)?", package)
    return (match[1], int(match[2])) if match else (package, None)


@cache
def vulnerabilities() -> tuple[Vulnerability, ...]:
    """Return all of them, in the order of the data file."""
    return tuple(_read(entry) for entry in yaml.load(DATA.read_text(encoding="utf-8"), yaml.CSafeLoader))


def _read(entry: dict[str, object]) -> Vulnerability:
    ranges = (str(text).split(" - ") for text in _list(entry["affected"]))
    return Vulnerability(
        str(entry["id"]),
        str(entry["program"]),
        str(entry["what"]),
        tuple((Version.parse(first), Version.parse(last)) for first, last in ranges),
        tuple(map(str, _list(entry["fixed"]))),
        tuple(re.compile(str(pattern)) for pattern in _list(entry["uses"])),
        str(entry["used"]),
        tuple(map(str, _list(entry.get("debian", [])))),
        str(entry["source"]),
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{DATA.name}: {value!r} is no list")
    return value


def candidates(program: str, version: Version, texts: Iterable[str]) -> list[Vulnerability]:
    """Return what a version of a program has, by its numbers, and these files reach."""
    text = "\n".join(texts)
    return [one for one in vulnerabilities() if one.program == program and one.concerns(version, text)]


def problems(program: str, version: str, package: str, found: Iterable[Vulnerability]) -> Iterator[Problem]:
    """Yield one warning for all of them, without those that the package is known to have mended.

    `package`: the version of the distribution's package; empty: there is none, or it cannot be told.
    """
    open_ones = [one for one in found if not one.mended(package)]
    if not open_ones:
        return
    holes = "; ".join(f"{one.id}, {one.what} (this fleet uses {one.used})" for one in open_ones)
    numbers = [number for one in open_ones for number in (*one.fixed, one.mended_in(package)) if number]
    fixed = ", ".join(dict.fromkeys(numbers))
    hint = f"update it: they are fixed in {fixed}"
    if package and any(one.mended(package) is None for one in open_ones):
        hint += f"; distributions mend them in older versions, too: see the changelog of {package}"
    sources = ", ".join(dict.fromkeys(one.source for one in open_ones))
    message = f"{program} {package or version} has known vulnerabilities: {holes}"
    yield warning(CODE, message, ("targets", program), f"{hint}; {sources}")
