"""``nginx -t``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.checker.spec import Message
from lbgen.checker.stand_ins import stand_in, with_raw
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lbgen.checker.surroundings import Surroundings
    from lbgen.model import Fleet
    from lbgen.runtimes.spec import Program

_LINE = re.compile(r"^(?:nginx: |[0-9/]+ [0-9:]+ )\[(?P<level>\w+)\] (?:\d+#\d+: )?(?P<text>.*)$")
_PLACE = re.compile(r" in (?P<file>\S+):(?P<line>\d+)$")
_ERROR_LEVELS = {"emerg", "alert", "crit", "error"}
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class NginxChecker:
    """Knows ``nginx -t``, which opens listeners, logs and its pid file, and makes its temporary folders."""

    program = "nginx"

    def version(self, program: Program) -> Version | None:
        """Return the version that ``nginx -v`` names."""
        found = re.search(r"version: \w+/(\d+\.\d+\.\d+)", program.run(["-v"]).output)
        return Version.parse(found[1]) if found else None

    def stand_in(self, fleet: Fleet, around: Surroundings, program: Program) -> Fleet:
        """Return the fleet with stand-ins, and with all temporary files inside the check's folder."""
        changed = stand_in(fleet, "nginx", around, opens=True)
        built = program.run(["-V"]).output
        raw = "\n".join(fleet.target("nginx").raw.get("http", ()))
        # As root, `nginx -t` would make these folders and give them to the worker's user (seen on 1.22).
        lines = tuple(
            f"{name}_temp_path {around.folder}/stand-ins-{name};"
            for name in _TEMPORARY
            if f"--without-http_{name}_module" not in built and f"{name}_temp_path" not in raw
        )
        return with_raw(changed, "nginx", "http", lines)

    def arguments(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return ``-t`` with pid file and error log moved away from the real ones."""
        early_log = ["-e", "stderr"] if version >= Version(1, 19, 5) else []
        return ["-t", *early_log, "-c", str(main_file), "-g", f"pid {main_file.parent}/stand-ins.pid;"]

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
