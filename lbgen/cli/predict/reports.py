"""Reports that commands write beside their results."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.cli.console import Console
    from lbgen.simulate.answers.report import Origin


PAGE, PICTURE = ".html", ".svg"
WITH_SECRETS = ("clients", "listeners", "metrics")
"""Keys whose values of ``--set`` a report does not repeat."""


def expect_writable(name: str | None, *kinds: str, option: str = "--report") -> None:
    """Raise `LbgenError` when a report could not be written: before the work, not after it.

    `kinds`: how its name may end, such as `PAGE` and `PICTURE`; raises `click.UsageError` for others.
    """
    if name is None:
        return
    _moment()
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


def origin(console: Console) -> Origin:
    """Return what a page says of itself: the command, and now or the date in SOURCE_DATE_EPOCH."""
    from lbgen.simulate.answers.report import Origin  # noqa: PLC0415 - most calls write no report

    return Origin(shlex.join(["lbgen", *_shown(console.arguments)]), f"{_moment():%Y-%m-%d %H:%M} UTC")


def _moment() -> datetime:
    """Return now, or the date in SOURCE_DATE_EPOCH; raises `LbgenError` for what is no such date."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (ValueError, OverflowError, OSError):
        raise LbgenError(f"SOURCE_DATE_EPOCH={epoch!r} is no date: seconds since 1970 are expected") from None


def _shown(arguments: Sequence[str]) -> Iterator[str]:
    for before, word in zip(("", *arguments), arguments, strict=False):
        setting = word if before == "--set" else word.removeprefix("--set=")
        secret = (before == "--set" or setting != word) and setting.startswith(WITH_SECRETS)
        yield f"{word[: len(word) - len(setting)]}{setting.partition('=')[0]}=..." if secret else word
