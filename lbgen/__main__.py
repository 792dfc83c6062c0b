"""The program: ``lbgen`` and ``python -m lbgen``."""

from __future__ import annotations

import gc

# All that is imported stays: looking through it for garbage costs 10 ms of the 120 that a small render
# takes. A command turns the collector on again before it begins (`lbgen.cli.options.Command`).
gc.disable()

import atexit  # noqa: E402 - after the line above
import os  # noqa: E402
import sys  # noqa: E402
from typing import NoReturn  # noqa: E402


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    try:
        from lbgen.cli.guard import run  # noqa: PLC0415 - so that Ctrl-C is caught while it is imported, too

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process without taking its modules apart, which costs another 15 ms."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)  # somebody still works, and is waited for
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way to run what others registered
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
