"""Reports that commands write beside their results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from lbgen.cli.console import Console


PAGE, PICTURE = ".html", ".svg"


def expect_writable(name: str | None, *kinds: str, option: str = "--report") -> None:
    """Raise `LbgenError` when a report could not be written: before the work, not after it.

    `kinds`: how its name may end, such as `PAGE` and `PICTURE`; raises `click.UsageError` for others.
    """
    if name is None:
        return
    path = Path(name)
    if not name:
        raise click.UsageError(f"{option} names no file")
    if path.suffix not in kinds:
        raise click.UsageError(f"{option}: name it {' or '.join(f'FILE{kind}' for kind in kinds)}")
    if path.is_dir():
        raise LbgenError(f"{name}: cannot be written: it is a folder")
    if path.exists() and not path.is_file():
        raise LbgenError(f"{name}: cannot be written: it is no regular file")
    if not path.parent.is_dir():
        raise LbgenError(f"{name}: cannot be written: there is no folder {path.parent}")
    if not os.access(path.resolve().parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise LbgenError(f"{name}: cannot be written: no permission")


def write_report(console: Console, name: str, text: str) -> None:
    """Write a report whole, or leave what was there, and say so; raises `LbgenError`."""
    from lbgen.files import replace_file  # noqa: PLC0415 - most calls write no report

    try:
        replace_file(Path(name), text)
    except OSError as error:
        raise LbgenError(f"{name}: cannot be written: {error.strerror}") from None
    console.note(f"written {name}")
