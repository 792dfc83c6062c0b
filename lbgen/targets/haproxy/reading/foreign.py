"""A haproxy.cfg that somebody else wrote, for a trial: what it listens on and calls, and where else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError
from lbgen.readers.haproxy import PROXIES, parse_haproxy
from lbgen.targets.foreign import Called, Entrance, Needed
from lbgen.targets.haproxy.reading.foreign_moved import Moving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.problems import Location
    from lbgen.readers.haproxy import Line, Section
    from lbgen.targets.foreign import Elsewhere, Moved

_CERTIFICATES = ("crt", "ca-file", "crl-file", "ca-verify-file")
_DECIDED = re.compile(r"(?:set-dst(?:-port)?|do-resolve)\b")


def address_of(text: str) -> str:
    """Return an address as fleets write it."""
    path = re.sub(r"^(?:unix@|ux@)", "", text)
    if path.startswith("/"):
        return f"unix:{path}"
    return re.sub(r"^ipv?[46]?@", "", text).lower()


def bind_of(text: str) -> str:
    """Return a listen address, the same for those that mean the same."""
    address = address_of(text)
    return re.sub(r"^(?:0\.0\.0\.0)?:(?=[^:]+$)", "*:", address)


class HaproxyForeign:
    """A haproxy.cfg."""

    def __init__(self, name: str, text: str) -> None:
        self._parsed = parse_haproxy([(name, text)])
        for problem in self._parsed.problems:
            if problem.code == "configuration-syntax":
                raise LbgenError(f"{problem.location}: {problem.message}: it cannot be tried")
        self._text, self._name = text, name
        self._proxies = list(self._parsed.all(*PROXIES))
        for section in self._proxies:
            _refuse(section)
        self.notes: list[str] = []
        self.calls = [
            Called(address_of(server.address), section.name, server.has("ssl"), server.line.location)
            for section in self._proxies
            for server in section.servers()
        ]
        bound = [bind for section in self._proxies for bind, _ in _binds(section)]
        self.binds = list(dict.fromkeys(bound))
        self.entrances = list(self._entrances())
        self.files = list(self._files())

    def moved(self, there: Elsewhere) -> Moved:
        """Return it with other addresses and files, line by line."""
        return Moving(self._parsed, there, address_of, bind_of).done(self._name, self._text)

    def _entrances(self) -> Iterator[Entrance]:
        for section in self._proxies:
            calls = frozenset(one.address for one in self.calls if one.group in set(self._led(section)))
            for bind, line in _binds(section):
                refused = "it expects the PROXY protocol" if "accept-proxy" in line.words else ""
                yield Entrance(bind, "ssl" in line.words, calls, line.location, refused=refused)

    def _led(self, section: Section) -> Iterator[str]:
        """Yield the backends that a frontend may lead to; an expression may lead to any."""
        if section.kind == "listen":
            yield section.name
        for line in (*section.own("use_backend"), *section.effective("default_backend")):
            name = line.words[1] if len(line.words) > 1 else ""
            yield from [one.name for one in self._proxies] if "%[" in name else [name]

    def _files(self) -> Iterator[Needed]:
        for section in self._parsed.sections:
            for line in section.lines:
                for keyword in _CERTIFICATES if line.words[0] in {"bind", "server", "default-server"} else ():
                    written = line.after(keyword)
                    if written is not None and not written.startswith("@"):
                        yield Needed(written, self._found(keyword, written, line.location), line.location)
                for word in line.words[1:]:
                    path = Path(re.sub(r"^.*\(|,.*$", "", word))
                    if path.is_absolute() and path.is_file() and os.access(path, os.R_OK):
                        yield Needed(str(path), path, line.location, certificate=False)

    def _found(self, keyword: str, written: str, place: Location) -> Path | None:
        base = self._parsed.globals and self._parsed.globals.last(
            "crt-base" if keyword == "crt" else "ca-base"
        )
        folder = Path(base.words[1]) if base and len(base.words) > 1 else Path(place.file).absolute().parent
        path = folder / written
        return path if path.exists() and os.access(path, os.R_OK) else None


def _binds(section: Section) -> Iterator[tuple[str, Line]]:
    for line in section.own("bind"):
        for one in line.words[1].split(",") if len(line.words) > 1 else ():
            if not one.startswith("quic"):
                yield bind_of(one), line


def _refuse(section: Section) -> None:
    """Raise `LbgenError` for what a trial would have to do outside of itself."""
    for line in section.lines:
        said = " ".join(line.words[:3])
        if line.words[0] == "server-template":
            why = "the names of its servers are looked up: write them as 'server' lines"
        elif line.words[:2] == ("option", "external-check"):
            why = "it runs a program of its own to check servers"
        elif any(_DECIDED.match(word) for word in line.words[1:3]):
            why = "it decides by itself which address is called"
        elif line.words[0] in {"server", "default-server"} and any(
            word.startswith("send-proxy") for word in line.words
        ):
            why = "it speaks the PROXY protocol to its servers, mock GPU servers do not"
        else:
            continue
        raise LbgenError(f"{line.location}: {said}: it cannot be tried: {why}")
