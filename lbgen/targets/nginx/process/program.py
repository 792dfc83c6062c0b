"""NGINX's program, also in its official image (https://github.com/nginx/docker-nginx)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.program import Program
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lbgen.targets.program import Ask

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""What its folders of temporary files are for; it makes all of them when it starts."""


class NginxProgram(Program):
    """``nginx``."""

    name = "nginx"
    user = 101
    stop_signal = "QUIT"
    # Its image's user may write to /tmp alone.
    levels = {"http": tuple(f"{name}_temp_path /tmp/{name};" for name in TEMPORARY)}  # noqa: RUF012 - constant
    # Its workers become nobody, and the folders nobody's.
    as_root = ("CHOWN", "SETGID", "SETUID")

    def image(self, version: Version) -> str:
        """Return the official image of a version."""
        return f"nginx:{version}"

    def version(self, ask: Ask) -> Version | None:
        """Return the version that ``nginx -v`` names."""
        found = re.search(r"version: \w+/(\d+\.\d+\.\d+)", ask(["-v"]))
        return Version.parse(found[1]) if found else None

    def in_foreground(self, main_file: Path) -> Sequence[str]:
        """Return the arguments that keep it in the foreground, its pid file in the folder."""
        pid = f"pid {main_file.parent}/stand-ins.pid; daemon off;"
        return ["-e", "stderr", "-c", str(main_file), "-g", pid]

    def in_container(self, directory: str) -> list[str]:
        """Return the command of a container."""
        # It opens the error log and the pid file that were compiled in, which its user may not write.
        pid = "daemon off; pid /tmp/nginx.pid;"
        return ["nginx", "-e", "stderr", "-c", f"{directory}/nginx.conf", "-g", pid]

    def checking(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return ``-t`` with pid file and error log moved away from the real ones."""
        early_log = ["-e", "stderr"] if version >= Version(1, 19, 5) else []
        return ["-t", *early_log, "-c", str(main_file), "-g", f"pid {main_file.parent}/stand-ins.pid;"]


PROGRAM = NginxProgram()
