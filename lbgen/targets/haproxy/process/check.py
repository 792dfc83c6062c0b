"""What ``haproxy -c`` complains of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.program import Checks, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE = re.compile(r"^\[(?P<level>[A-Z]+)\]\s+\(\d+\) : (?:config : )?(?P<text>.*)$")
_PLACE = re.compile(r"^(?:parsing )?\[(?P<file>[^\]\s]+):(?P<line>\d+)\]\s*(?:: )?")
_SUMMARIES = ("Error(s) found in configuration file", "Fatal errors found in configuration")


class HaproxyChecks(Checks):
    """Knows ``haproxy -c``, which opens nothing but the files that the configuration names (seen on 2.6)."""

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


CHECKS = HaproxyChecks()
