"""Who owns what a lab made, so that what a crash left behind can be told from what is in use."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

PREFIX = "lbgen-trial-"
"""Of the folders of ours below the system's temporary one."""
OWNER_FILE = "owner"


def owner(pid: int) -> str:
    """Return the label of what a process of this machine owns: host, process, its start time."""
    # The start time tells the process from a later one with the same number.
    return f"{socket.gethostname()} {pid} {_start_time(pid)}"


def is_stale(label: str) -> bool:
    """Tell whether an owner is gone; those of other machines are left alone."""
    host, pid, start = label.split()
    return host == socket.gethostname() and str(_start_time(int(pid))) != start


def make_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder of ours, and remove those of owners that are gone."""
    sweep_folders()
    made = tempfile.TemporaryDirectory(prefix=PREFIX)
    (Path(made.name) / OWNER_FILE).write_text(owner(os.getpid()), encoding="utf-8")
    return made


def sweep_folders() -> None:
    """Remove the folders whose owner is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            stale = is_stale((folder / OWNER_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # somebody else's, or just being made
        if stale:
            shutil.rmtree(folder, ignore_errors=True)


def _start_time(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
