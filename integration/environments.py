"""Programs from PyPI that are too large for the extra `dev`, each in a virtual environment that is kept."""

from __future__ import annotations

import subprocess
import tempfile
import venv
from pathlib import Path


def environment(package: str, version: str, extra: str = "") -> Path:
    """Return the folder of programs of a virtual environment with a package, made when it is not there."""
    folder = Path(tempfile.gettempdir()) / f"lbgen-{package}-{version}"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        wanted = f"{package}[{extra}]=={version}" if extra else f"{package}=={version}"
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", wanted], check=True)
        ready.touch()
    return folder / "bin"
