"""What ``global`` says of the program, as ``targets.haproxy`` and ``logs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.draft import Said
from lbgen.imports.values import duration, haproxy_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line

_LEAST_CONNECTIONS = 100


def read_program(reading: Reading) -> None:
    """Read the settings of the target."""
    values: dict[str, Said] = {}
    section = reading.configuration.globals
    for line in section.lines if section is not None else ():
        word, text = line.words[0], line.words[1] if len(line.words) > 1 else ""
        if word == "maxconn" and text.isdecimal() and int(text) >= _LEAST_CONNECTIONS:
            values["max_connections"] = Said(int(text), line.location)
        elif word == "nbthread" and text.isdecimal():
            values["threads"] = Said(int(text), line.location)
        elif word == "user":
            values["user"] = Said(text, line.location)
        elif word == "hard-stop-after" and haproxy_time(text):
            values["drain_timeout"] = Said(duration(haproxy_time(text) or 0), line.location)
        elif line.words[:2] == ("stats", "socket") and len(line.words) > 2 and line.words[2].startswith("/"):
            values.setdefault("runtime_socket", Said(line.words[2], line.location))
        elif word == "log" and _log(reading, line):
            pass
        else:
            continue
        reading.ledger.carried(line.location)
    reading.draft.targets["haproxy"] = {**reading.draft.targets.get("haproxy", {}), **values}


def _log(reading: Reading, line: Line) -> bool:
    """Take over where access logs go."""
    to = _targets(line.words[1]) if len(line.words) > 1 else None
    if to is None:
        return False
    if "to" not in reading.draft.logs:
        reading.draft.logs["to"] = Said(to, line.location)
    return bool(reading.draft.logs["to"].value == to)


def _targets(text: str) -> str | None:
    named: Mapping[str, str] = {"stdout": "stdout", "stderr": "stderr", "fd@1": "stdout", "fd@2": "stderr"}
    if text in named:
        return named[text]
    if text.startswith(("/", "ring@", "unix@", "fd@", "global")) or not text:
        return None
    address = text.removeprefix("udp@")
    return f"syslog:{address}" if ":" in address else f"syslog:{address}:514"
