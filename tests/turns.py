"""Tests that take turns: several at once, a file in one process, and those marked `alone` after all others.

A run of folders has a process more than there are cores, as tests mostly wait. A run of named files has one,
so that a debugger and prints work as usual; `-n` says otherwise.
"""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

MOST = 6
"""Each process that runs containers has its own network and four mock GPU servers."""
FOLDER = Path(__file__).parent
HELD = pytest.StashKey[bool]()
"""Whether this process has the turn: pytest calls the hooks of all folders for each test, so both may ask."""


def pytest_sessionstart() -> None:
    """Let the programs that tests start heed signals.

    Under nohup and in a shell's background signals are ignored, which is inherited; a handler is not.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Tell how many processes run the tests; 0: this one."""
    folders = [argument for argument in config.args if (config.invocation_params.dir / argument).is_dir()]
    return min(len(os.sched_getaffinity(0)) + 1, MOST) if folders else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those that run alone at the end, where nobody else has anything left to do, and long files first.

    Unit tests still come before the others, whose images are built meanwhile.
    """
    items.sort(key=lambda item: (is_alone(item), FOLDER not in item.path.parents, not is_slow(item)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Wait for the test's turn, outside of its own time limit."""
    with turn(item):
        return (yield)


def is_alone(item: pytest.Item) -> bool:
    """Tell whether a test measures what others would disturb."""
    return item.get_closest_marker("alone") is not None


def is_slow(item: pytest.Item) -> bool:
    """Tell whether a test's file takes long."""
    return item.get_closest_marker("slow") is not None


@contextmanager
def turn(item: pytest.Item) -> Iterator[None]:
    """Hold a lock that all processes of a run share, or one of them has."""
    stash = item.config.stash
    if not hasattr(item.config, "workerinput") or stash.get(HELD, False):
        yield
        return
    folder = Path(item.config.option.basetemp).parent  # the run's own; each process has one below it
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if is_alone(item) else fcntl.LOCK_SH)
        stash[HELD] = True
        yield
    finally:
        stash[HELD] = False
        os.close(lock)
