"""HAProxy's program, also in its official image (https://github.com/docker-library/haproxy)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.program import Program
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lbgen.targets.program import Ask


class HaproxyProgram(Program):
    """``haproxy``."""

    name = "haproxy"
    user = 99
    stop_signal = "USR1"
    reload_signal = "USR2"
    # Its master loses a reload that comes right after another (seen on 2.6 and 3.0), or resets the
    # connections that wait in between (3.2).
    settle_s = 1.0
    master_socket = True

    def image(self, version: Version) -> str:
        """Return the official image of a version."""
        return f"haproxy:{version}"

    def version(self, ask: Ask) -> Version | None:
        """Return the version that ``haproxy -v`` names."""
        found = re.search(r"version (\d+\.\d+(?:\.\d+)?)", ask(["-v"]))
        return Version.parse(found[1]) if found else None

    def package(self, ask: Ask) -> str:
        """Return the package that HAProxy of Debian names: 2.6.12-1+deb12u4."""
        found = re.search(r"version (\d+\.\d+\.\d+-\d\S*)", ask(["-v"]))
        return found[1] if found else ""

    def in_foreground(self, main_file: Path) -> Sequence[str]:
        """Return the arguments that keep it in the foreground, without a master process."""
        return ["-db", "-f", str(main_file)]

    def in_container(self, directory: str) -> list[str]:
        """Return the command of a container, with a master process (-W), which is what reloads."""
        return ["haproxy", "-W", "-db", "-f", f"{directory}/haproxy.cfg"]

    def checking(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return ``-c`` of the one file."""
        del version
        return ["-c", "-f", str(main_file)]


PROGRAM = HaproxyProgram()
