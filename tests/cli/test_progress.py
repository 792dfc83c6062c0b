"""How far a long command is: on terminals, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from lbgen.cli.console import Console
from lbgen.cli.progress import Progress, time_left


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO, False), (Terminal, True)])
def test_nothing_is_written_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], quiet: bool
) -> None:
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    console = Console()
    console.quiet = quiet
    progress = Progress(console, "runs")
    progress.show(1, 2)
    progress.clear()
    assert not shown.getvalue()


def test_a_terminal_sees_done_of_total_and_at_the_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    progress = Progress(Console(), "runs")
    progress.show(1_000, 2_000)
    progress.show(1_001, 2_000)  # too soon after
    progress.show(2_000, 2_000)
    lines = shown.getvalue().split("\r\x1b[K")
    assert len(lines) == 3
    assert lines[1].startswith("1000/2000 runs, 0 s left")
    assert lines[2] == ""


def test_time_left_in_words() -> None:
    assert time_left(0) == ""
    assert time_left(42.4) == ", 42 s left"
    assert time_left(200) == ", 3 min left"
