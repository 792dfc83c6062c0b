"""Images are built while the unit tests run; who needs one waits for it outside of its test's time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.debian import ImageError
from integration.images import CHOICE, GENERATIONS, ensure
from tests.turns import pytest_sessionstart as heed_signals
from tests.turns import turn

if TYPE_CHECKING:
    from collections.abc import Generator

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
BUILDER = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to build the images that are missing, in a process of its own."""
    heed_signals()
    if os.environ.get(CHOICE) != "local" or hasattr(session.config, "workerinput"):
        return
    # What goes wrong is told by the tests that want the image.
    session.config.stash[BUILDER] = subprocess.Popen(
        [sys.executable, "-m", "integration.images"], cwd=ROOT, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop building; the builder cleans up."""
    builder = session.config.stash.get(BUILDER, None)
    if builder is not None:
        with suppress(ProcessLookupError):
            os.killpg(builder.pid, signal.SIGINT)
        builder.wait(60)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Wait for the images, where the test is one of this folder, and for its turn."""
    if FOLDER in item.path.parents:
        wait_for_images()
    with turn(item):
        return (yield)


@cache
def wait_for_images() -> None:
    """Return when every image is there, or none is to be had: the test that wants it says why."""
    if os.environ.get(CHOICE) == "local":
        with suppress(ImageError):
            for suite in GENERATIONS:
                ensure(suite)
