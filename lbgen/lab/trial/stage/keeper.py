"""Runs a program that must not outlive its starter: ``python3 -m lbgen.lab.trial.stage.keeper PROGRAM...``.

It ends the program, with all that this one started, when standard input ends: also when the starter was
killed and could tell nobody.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE_S = 2.0


def keep(words: Sequence[str]) -> int:
    """Run a program until it ends or standard input does; return its exit code."""
    try:
        child = subprocess.Popen(list(words), stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - ours
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=_watch, args=(child,), daemon=True).start()
    code = child.wait()
    _signal(child, signal.SIGKILL)  # whatever of its group is left
    return code


def _watch(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock Python misses when it ends before this does
        pass
    _signal(child, signal.SIGTERM)
    try:
        child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us
    sys.exit(keep(sys.argv[1:]))
