"""Files packed for a container."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import h11

import lbgen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CODE_FOLDER = "/lab"
"""Where lbgen and h11 stand in a container, for PYTHONPATH."""


def pack(files: Mapping[str, str | bytes], folders: Iterable[str] = ()) -> bytes:
    """Return a tar archive of files by path, readable for every user; `folders`: empty ones, for everybody.

    The folders that it needs are in it: an image need not have them. Those at the root keep what they are.
    """
    buffer = io.BytesIO()
    needed = {str(one) for path in files for one in PurePosixPath(path.lstrip("/")).parents if one.parts[1:]}
    modes = dict.fromkeys(sorted(needed), 0o755) | {path.lstrip("/"): 0o777 for path in folders}
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, mode in modes.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
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
