"""Problems as people read them on a terminal."""

from __future__ import annotations

from lbgen.cli.problem_text import text_report
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

TEXT = "pools:\n  chat: {servers: ['10.0.0.1:8000'], strategie: least_conn, max_in_flight: many}\n"


def test_messages_and_hints_fit_the_width_and_lose_no_word() -> None:
    source = Source("fleet-with-a-long-name.yaml", TEXT)
    problems = load([source]).problems
    plain, narrow = text_report(problems, [source]), text_report(problems, [source], width=60)
    told = [line for line in narrow.split("\n") if " | " not in line]
    assert max(map(len, plain.split("\n"))) > 60, "there is something to wrap"
    assert max(map(len, told)) <= 60, told
    assert narrow.split() == plain.split()


def test_colours_take_no_room() -> None:
    source = Source("fleet.yaml", TEXT)
    problems = load([source]).problems
    colored = text_report(problems, [source], color=True, width=60)
    for code in ("1;31", "1;33", "1", "2", "36", "0"):
        colored = colored.replace(f"\x1b[{code}m", "")
    assert colored == text_report(problems, [source], width=60)
