"""How a command that waits is told to end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def end_as_ctrl_c_does() -> None:
    """Let SIGTERM, and SIGHUP of a terminal that goes, raise `KeyboardInterrupt` as SIGINT does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
