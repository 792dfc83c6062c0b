"""Between the commands and the shell: exit codes, and one clear line in place of a traceback."""

from __future__ import annotations

import os
import sys
from errno import EBADF, EPIPE
from io import TextIOBase
from typing import TYPE_CHECKING, TextIO

import click

from lbgen.cli.app import lbgen
from lbgen.cli.console import Console
from lbgen.problems import FleetError, LbgenError

if TYPE_CHECKING:
    from collections.abc import Sequence

FINE, FINDINGS, FAILED = 0, 1, 2
INTERRUPTED, BROKEN_PIPE = 130, 141
"""What shells show for a program that SIGINT or SIGPIPE ended."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; whatever goes wrong is said on standard error."""
    console = Console(arguments)
    try:
        _prepare_streams()
        return _guarded(arguments, console)
    except OSError as error:  # standard error itself cannot be written: there is nobody left to tell
        _drop_output()
        return BROKEN_PIPE if error.errno == EPIPE else FAILED


def _guarded(arguments: Sequence[str], console: Console) -> int:
    try:
        code = _run(arguments, console)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        console.error("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        return _system_error(error, console)
    except Exception as error:  # noqa: BLE001 - the last resort: a line for everybody, the stack for -v
        return _explained(error, console)
    return code


def _explained(error: Exception, console: Console) -> int:
    if isinstance(error, FleetError):
        console.problems(error.problems)
        return FINDINGS
    if isinstance(error, LbgenError):
        console.error(str(error))
    elif isinstance(error, RecursionError | MemoryError):
        console.error(f"the input is too large or nested too deeply ({type(error).__name__})")
    else:
        _internal_error(error, console)
    return FAILED


def _run(arguments: Sequence[str], console: Console) -> int:
    if "_LBGEN_COMPLETE" in os.environ:  # the shell asks for completions, in click's protocol
        lbgen.main(list(arguments), prog_name="lbgen", complete_var="_LBGEN_COMPLETE")
    # Not `lbgen.main`: it would end the process by itself, with 1 for a broken pipe.
    try:
        with lbgen.make_context("lbgen", list(arguments), obj=console) as context:
            return int(lbgen.invoke(context) or FINE)
    except click.exceptions.Exit as error:
        return error.exit_code


def _prepare_streams() -> None:
    """Make the output the same bytes everywhere: UTF-8, and odd file names come out as they came in."""
    _occupy_descriptors()
    if sys.stdout is None:  # closed by the shell: >&-
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it stays open
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")


class _Closed(TextIOBase):
    """Standard output that the shell closed: a result that is lost is a failure, and no result is none."""

    def write(self, text: str, /) -> int:
        """Fail, when there is something to write."""
        if text:
            raise OSError(EBADF, "is closed")
        return 0


def _occupy_descriptors() -> None:
    """Let no file that is opened later take the place of a closed standard stream."""
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(descriptor)


def _system_error(error: OSError, console: Console) -> int:
    if error.errno == EPIPE:
        _drop_output()
        return BROKEN_PIPE
    _drop_output(sys.stdout)
    console.error(f"{error.filename or 'standard output'}: {error.strerror or error}")
    return FAILED


def _internal_error(error: Exception, console: Console) -> None:
    if console.verbose:
        import traceback  # noqa: PLC0415 - only now is it needed

        traceback.print_exc()
    console.error(
        f"internal error: {type(error).__name__}: {error}\n"
        "This is a fault in lbgen. Please report it with what 'lbgen -v ...' prints."
    )


def _drop_output(*streams: TextIO) -> None:
    """Let what is left in the buffers of dead streams go nowhere, else Python complains at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError):
            continue
    os.close(nowhere)
