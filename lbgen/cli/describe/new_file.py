"""Writing a file that is not there yet: whole, or not at all."""

from __future__ import annotations

import os

from lbgen.problems import LbgenError


def write_new(path: str, text: str) -> None:
    """Write a new file; raises `LbgenError` for one that is there, and for what cannot be written."""
    try:
        stream = open(path, "x", encoding="utf-8")  # noqa: PTH123, SIM115 - "x" is the point
    except FileExistsError:
        raise LbgenError(f"{path}: is there already, and is left alone") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LbgenError(f"{path}: cannot be written: {reason}") from None
    try:
        with stream:
            stream.write(text)
    except OSError as error:
        os.unlink(path)  # noqa: PTH108 - half a file is none
        raise LbgenError(f"{path}: cannot be written: {error.strerror}") from None
