"""A haproxy.cfg that somebody else wrote, each of its lines with the addresses and files of a trial."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.problems import Location
from lbgen.readers.haproxy import PROXIES
from lbgen.targets.foreign import NOWHERE, Moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.readers.haproxy import Haproxy, Line, Section
    from lbgen.targets.foreign import Elsewhere

_WORD = re.compile(r"""(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\s"'\\#])+""")
_OWN = {"daemon", "chroot", "user", "group", "uid", "gid", "pidfile", "master-worker", "localpeer", "nbproc",
        "server-state-file", "server-state-base"}  # fmt: skip
"""What of ``global`` is the trial's own matter."""
_LEFT_OUT = {"program", "mailers"}
"""Sections that would run other programs, or write to people."""
_OUTSIDE = {"email-alert", "load-server-state-from-file"}
"""What would tell somebody outside of it."""
_OF_BINDS = {"interface": 1, "namespace": 1, "user": 1, "group": 1, "uid": 1, "gid": 1, "mode": 1,
             "transparent": 0, "v4v6": 0, "v6only": 0}  # fmt: skip
_OF_SERVERS = {"port": 1, "addr": 1, "source": 1, "namespace": 1}
"""Words that go with the address that was, and how many words follow each."""


class Moving:
    """Writes lines again; those that name no address and no file stay as they are, to the letter."""

    def __init__(
        self,
        parsed: Haproxy,
        there: Elsewhere,
        address_of: Callable[[str], str],
        bind_of: Callable[[str], str],
    ) -> None:
        self._parsed = parsed
        self._there = there
        self._address_of = address_of
        self._bind_of = bind_of

    def done(self, name: str, text: str) -> Moved:
        """Return the whole file."""
        lines = text.split("\n")
        changes: list[str] = []
        for section in self._parsed.sections:
            if section.kind in _LEFT_OUT:
                self._blank(lines, changes, section.head)
            for line in section.lines:
                number = line.location.line - 1
                made = self._line(section, line, lines[number])
                if made is None:
                    self._blank(lines, changes, line)
                elif made != lines[number]:
                    changes.append(f"{line.location}: {lines[number].strip()} -> {made.strip()}")
                    lines[number] = made
        places = [Location(name, number, 1) for number in range(1, len(lines) + 1)]
        return Moved("\n".join([*lines, ""]), places, changes)

    def _blank(self, lines: list[str], changes: list[str], line: Line) -> None:
        changes.append(f"{line.location}: {line.words[0]} -> left out")
        lines[line.location.line - 1] = ""

    def _line(self, section: Section, line: Line, raw: str) -> str | None:
        """Return a line for the trial; None: it is left out."""
        first, second = (*line.words, "")[:2]
        own = first in _OWN or (first, second) == ("stats", "socket")
        if section.kind in _LEFT_OUT or first in _OUTSIDE or (section.kind == "global" and own):
            return None
        if first == "log" and second not in {"", "global"}:
            return _with(raw, 1, "stderr")
        return self._addressed(line, raw) if section.kind in {*PROXIES, "defaults"} else raw

    def _addressed(self, line: Line, raw: str) -> str | None:
        match line.words:
            case ("bind", _, *_):
                return self._bind(line, raw)
            case ("server", _, address, *_):
                found = self._there.doors.get(self._address_of(address))
                moved = _with(raw, 2, str(found) if found else NOWHERE)
                return self._files(_dropped(moved, 3, _OF_SERVERS))
            case ("default-server", *_):
                return self._files(_dropped(raw, 1, _OF_SERVERS))
            case ("http-check" | "tcp-check", "connect", *_):
                return _dropped(raw, 2, _OF_SERVERS)
            case ("dispatch", _, *_):
                return _with(raw, 1, NOWHERE)
        return raw

    def _bind(self, line: Line, raw: str) -> str | None:
        asked = [one for one in line.words[1].split(",") if not one.startswith("quic")]
        if not asked:
            return None
        moved = ",".join(str(self._there.binds[self._bind_of(one)]) for one in asked)
        return self._files(_dropped(_with(raw, 1, moved), 2, _OF_BINDS))

    def _files(self, raw: str) -> str:
        words = [found[0] for found in _WORD.finditer(raw)]
        for at, word in enumerate(words[:-1]):
            written = words[at + 1].strip("\"'")
            if word in {"ca-file", "ca-verify-file"} and not written.startswith("@"):
                raw = _with(raw, at + 1, self._there.authority)
            elif word in {"crt", "crl-file"} and written in self._there.files:
                raw = _with(raw, at + 1, self._there.files[written])
        return raw


def _with(raw: str, number: int, text: str) -> str:
    """Return a line with another word at a place."""
    found = list(_WORD.finditer(raw))[number]
    return raw[: found.start()] + text + raw[found.end() :]


def _dropped(raw: str, begin: int, words: dict[str, int]) -> str:
    """Return a line without these words, and without those that belong to them."""
    spans = [(found.start(), found.end(), found[0]) for found in _WORD.finditer(raw)]
    at, gone = begin, []
    while at < len(spans):
        if spans[at][2] in words:
            last = min(at + words[spans[at][2]], len(spans) - 1)
            gone.append((spans[at][0], spans[last][1]))
            at = last
        at += 1
    for start, end in reversed(gone):
        raw = raw[:start].rstrip() + raw[end:]
    return raw
