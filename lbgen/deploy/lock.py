"""One apply at a time in a folder."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOCK_WAIT_S = 60.0


class RefusedError(LbgenError):
    """The change was refused before anything was touched."""


@contextmanager
def locked(directory: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the directory's lock; raises `RefusedError` when another apply holds it for too long."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(
        directory / ".lbgen.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        end = time.monotonic() + LOCK_WAIT_S
        told = False
        while not _try_lock(descriptor):
            if not told:
                say("another apply is running here: waiting for it")
                told = True
            if time.monotonic() > end:
                raise RefusedError(f"another apply has been running in {directory} for {LOCK_WAIT_S:.0f} s")
            time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
