"""Envoy's program, also in its official image (https://hub.docker.com/r/envoyproxy/envoy)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.targets.program import Program
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lbgen.targets.program import Ask


class EnvoyProgram(Program):
    """``envoy``."""

    name = "envoy"
    user = 101
    stop_signal = "TERM"
    # Envoy takes new files by itself, and eats the signal that makes others reload.

    def image(self, version: Version) -> str:
        """Return the official image of a version."""
        whole = f"v{version.major}.{version.minor}"
        return (
            f"envoyproxy/envoy:{whole}.{version.patch}"
            if version.patch
            else f"envoyproxy/envoy:{whole}-latest"
        )

    def version(self, ask: Ask) -> Version | None:
        """Return the version that ``envoy --version`` names."""
        found = re.search(r"version: [0-9a-f]+/(\d+\.\d+\.\d+)", ask(["--version"]))
        return Version.parse(found[1]) if found else None

    def in_foreground(self, main_file: Path) -> Sequence[str]:
        """Return the arguments that serve; several may run on one machine."""
        return ["-c", str(main_file), "--use-dynamic-base-id", "--log-level", "warning"]

    def in_container(self, directory: str) -> list[str]:
        """Return the command of a container."""
        return ["envoy", "-c", f"{directory}/envoy.yaml", "--log-level", "warning"]

    def checking(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return ``--mode validate``, which opens no listener, and reads no file that Envoy would watch."""
        del version
        return ["--mode", "validate", "-c", str(main_file), "--log-level", "error"]


PROGRAM = EnvoyProgram()
