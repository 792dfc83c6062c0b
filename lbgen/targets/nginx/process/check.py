"""What ``nginx -t`` complains of, and what it has to be given beside the configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.nginx.process.program import TEMPORARY
from lbgen.targets.program import Checks, Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.model import Fleet, TargetSettings
    from lbgen.targets.program import Ask

_LINE = re.compile(r"^(?:nginx: |[0-9/]+ [0-9:]+ )\[(?P<level>\w+)\] (?:\d+#\d+: )?(?P<text>.*)$")
_PLACE = re.compile(r" in (?P<file>\S+):(?P<line>\d+)$")
_ERROR_LEVELS = {"emerg", "alert", "crit", "error"}


class NginxChecks(Checks):
    """Knows ``nginx -t``, which opens listeners, logs and its pid file, and makes its temporary folders."""

    opens = True

    def stand_in(self, fleet: Fleet, folder: Path, ask: Ask) -> Fleet:
        """Return the fleet with all temporary files inside the check's folder."""
        built = ask(["-V"])
        settings = fleet.target("nginx")
        raw = "\n".join(settings.raw.get("http", ()))
        # As root, `nginx -t` would make these folders and give them to the worker's user (seen on 1.22).
        lines = tuple(
            f"{name}_temp_path {folder}/stand-ins-{name};"
            for name in TEMPORARY
            if f"--without-http_{name}_module" not in built and f"{name}_temp_path" not in raw
        )
        level = (*settings.raw.get("http", ()), *lines)
        return _with(fleet, settings._replace(raw={**settings.raw, "http": level}))

    def messages(self, output: str) -> Iterator[Message]:
        """Yield warnings and errors; NGINX stops at the first error."""
        seen = set()
        for line in output.splitlines():
            found = _LINE.match(line)
            if not found or found["level"] in {"notice", "info", "debug"} or found["text"] in seen:
                continue
            seen.add(found["text"])
            place = _PLACE.search(found["text"])
            yield Message(
                found["level"] in _ERROR_LEVELS,
                found["text"][: place.start()] if place else found["text"],
                place["file"] if place else "",
                int(place["line"]) if place else 0,
            )

    def lacking(self, messages: Sequence[Message]) -> str:
        """Return the file of a module that is not there."""
        for message in messages:
            if message.is_error and message.text.startswith("dlopen()"):
                return message.text.split('"')[1].rpartition("/")[2]
        return ""

    def without(self, fleet: Fleet) -> Fleet:
        """Return the fleet without modules."""
        settings = fleet.target("nginx")
        return _with(fleet, settings._replace(own=settings.own._replace(modules=())))


def _with(fleet: Fleet, changed: TargetSettings) -> Fleet:
    targets = tuple(changed if one.name == changed.name else one for one in fleet.targets)
    return fleet._replace(targets=targets)


CHECKS = NginxChecks()
