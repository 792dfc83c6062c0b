"""``haproxy -c``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.checker.spec import Message
from lbgen.checker.stand_ins import stand_in
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.checker.surroundings import Surroundings
    from lbgen.model import Fleet
    from lbgen.runtimes.spec import Program

_LINE = re.compile(r"^\[(?P<level>[A-Z]+)\]\s+\(\d+\) : (?:config : )?(?P<text>.*)$")
_PLACE = re.compile(r"^(?:parsing )?\[(?P<file>[^\]\s]+):(?P<line>\d+)\]\s*(?:: )?")
_SUMMARIES = ("Error(s) found in configuration file", "Fatal errors found in configuration")


class HaproxyChecker:
    """Knows ``haproxy -c``, which opens nothing but the files that the configuration names."""

    program = "haproxy"

    def version(self, program: Program) -> Version | None:
        """Return the version that ``haproxy -v`` names."""
        found = re.search(r"version (\d+\.\d+(?:\.\d+)?)", program.run(["-v"]).output)
        return Version.parse(found[1]) if found else None

    def stand_in(self, fleet: Fleet, around: Surroundings, program: Program) -> Fleet:
        """Return the fleet with stand-ins; listeners stay, since ``-c`` does not open them (seen on 2.6)."""
        del program
        return stand_in(fleet, "haproxy", around, opens=False)

    def arguments(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return ``-c`` of the one file."""
        del version
        return ["-c", "-f", str(main_file)]

    def messages(self, output: str) -> Iterator[Message]:
        """Yield warnings and alerts, each with the lines that follow it."""
        for level, text in _entries(output):
            place = _PLACE.match(text)
            if level == "NOTICE" or text.startswith(_SUMMARIES):
                continue
            yield Message(
                level != "WARNING",
                text[place.end() :] if place else text,
                place["file"] if place else "",
                int(place["line"]) if place else 0,
            )


def _entries(output: str) -> Iterator[tuple[str, str]]:
    entry: list[str] = []
    level = ""
    for line in output.splitlines():
        found = _LINE.match(line)
        if found:
            if entry:
                yield level, " ".join(entry)
            level, entry = found["level"], [found["text"].strip()]
        elif entry and line.startswith((" ", "\t")):
            entry.append(line.strip())
    if entry:
        yield level, " ".join(entry)
