"""Files packed for a container."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import h11

import lbgen

if TYPE_CHECKING:
    from collections.abc import Mapping

CODE_FOLDER = "/lab"
"""Where lbgen and h11 stand in a container, for PYTHONPATH."""


def pack(files: Mapping[str, str | bytes]) -> bytes:
    """Return a tar archive of files by path, readable for every user."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@cache
def packed_code() -> bytes:
    """Return the code that a mock GPU server needs: lbgen and h11, both pure Python."""
    files: dict[str, str | bytes] = {}
    for package in (Path(lbgen.__file__).parent, Path(h11.__file__).parent):
        for path in package.rglob("*.py"):
            files[f"{CODE_FOLDER}/{package.name}/{path.relative_to(package)}"] = path.read_bytes()
    return pack(files)
