"""Reading files that others made: regular ones alone, and no more than they may hold.

A pipe without a writer would be waited for, and `/dev/zero` read without end.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from errno import EFBIG, EINVAL, EISDIR
from stat import S_ISDIR, S_ISFIFO, S_ISREG
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

MIB = 1024**2
MOST = 256 * MIB
"""Bytes: more than any file has that lbgen reads whole."""
_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a shell puts what it hands over: ``lbgen check <(generate)``."""


@contextmanager
def readable(name: str | os.PathLike[str]) -> Iterator[None]:
    """Raise `LbgenError` with the file's name where it cannot be read, or is not UTF-8 text."""
    try:
        yield
    except OSError as error:
        raise LbgenError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LbgenError(f"{name}: is not UTF-8 text") from None


def opened(path: str | os.PathLike[str], most: int = MOST, *, pipe: bool = False) -> BinaryIO:
    """Open a regular file; raises `OSError`, also for what is none, or holds more than `most` bytes.

    `pipe`: one that the shell hands over will do as well.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    handed = pipe and S_ISFIFO(status.st_mode) and os.fspath(path).startswith(_PIPES)
    if not S_ISREG(status.st_mode) and not handed:
        os.close(descriptor)
        what = os.strerror(EISDIR) if S_ISDIR(status.st_mode) else "it is no regular file"
        raise OSError(EINVAL, what, os.fspath(path))
    if status.st_size > most:
        os.close(descriptor)
        raise _too_large(path, most)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def read_bytes(path: str | os.PathLike[str], most: int = MOST) -> bytes:
    """Return what a file holds; raises `OSError`, also for one that holds more than `most` bytes."""
    with opened(path, most) as stream:
        data = stream.read(most + 1)
    if len(data) > most:  # it grew, or is one of /proc, which have no size
        raise _too_large(path, most)
    return data


def read_text(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", errors: str = "strict", most: int = MOST
) -> str:
    """Return a file's text, with Unix line ends; raises `OSError` and `UnicodeDecodeError`."""
    text = read_bytes(path, most).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _too_large(path: str | os.PathLike[str], most: int) -> OSError:
    return OSError(EFBIG, f"it is larger than {most // MIB} MiB", os.fspath(path))
