"""Trace files: each origin's columns, and what is wrong with a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.problems import FleetError, LbgenError
from lbgen.simulate.load.traces import Trace, read_trace

if TYPE_CHECKING:
    from pathlib import Path

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,GPT-4,1087,230,1317,API log
"""
PLAIN = "time,prompt_tokens,output_tokens,session\n0.5,10,20,a\n0.25,30,40,\n"
MOONCAKE = """{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 7, 8]}
{"timestamp": 2500, "input_length": 700, "output_length": 6, "hash_ids": [0, 9]}
"""


def trace(folder: Path, text: str, name: str = "trace.csv", **values: bool) -> Trace:
    path = folder / name
    path.write_text(text)
    return read_trace(path, **values)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (AZURE, "a.csv", [(0.0, 374, 44), (4.314579, 396, 109)]),
        (BURSTGPT, "b.csv", [(0.0, 472, 18), (40.0, 1087, 230)]),
        (PLAIN, "p.csv", [(0.0, 30, 40), (0.25, 10, 20)]),
        ("\ufeff" + PLAIN.replace("\n", "\r\n"), "w.csv", [(0.0, 30, 40), (0.25, 10, 20)]),
        (MOONCAKE, "m.jsonl", [(0.0, 1030, 5), (2.5, 700, 6)]),
    ],
)
def test_each_origin_is_read(tmp_path: Path, text: str, name: str, expected: list[tuple]) -> None:
    made = trace(tmp_path, text, name)
    begin = made.rows[0].at_s
    assert [(round(r.at_s - begin, 6), r.prompt_tokens, r.output_tokens) for r in made.rows] == expected


def test_what_identifies_prompts_and_sessions_is_kept(tmp_path: Path) -> None:
    first, second = trace(tmp_path, MOONCAKE, "m.jsonl").rows
    assert (first.chunks, second.chunks) == ((0, 7, 8), (0, 9))
    assert first.prefix != second.prefix  # all begin with block 0, which alone would send all to one server
    assert [row.session for row in trace(tmp_path, PLAIN).rows] == [None, "a"]


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        ("soon,10,20", 1, "not a time"),
        ("1,ten,20", 3, "'ten' is not a number of tokens"),
        ("1,10,-5", 6, "'-5' is not a number"),
        ("1,10", 5, "'' is not a number"),
        ("1,10,0", 6, "0 tokens"),
        ("nan,10,20", 1, "not a time"),
        ("1,10,99999999999999999999", 6, "not a number of tokens"),
    ],
)
def test_a_bad_row_is_placed(tmp_path: Path, row: str, column: int, words: str) -> None:
    text = f"time,prompt_tokens,output_tokens\n0,1,2\n{row}\n"
    with pytest.raises(FleetError) as caught:
        trace(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.code == "bad-trace-row"
    assert str(problem.location) == f"{tmp_path}/trace.csv:3:{column}"
    assert words in problem.message
    made = trace(tmp_path, text, skip_bad_rows=True)
    assert (len(made.rows), made.skipped) == (1, 1)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "7",
        '{"timestamp": 0, "input_length": 5}',
        '{"timestamp": 0, "input_length": 5, "output_length": "x"}',
    ],
)
def test_a_bad_json_line_is_placed(tmp_path: Path, line: str) -> None:
    with pytest.raises(FleetError) as caught:
        trace(tmp_path, MOONCAKE + line + "\n", "m.jsonl")
    location = caught.value.problems[0].location
    assert location is not None
    assert location.line == 3


@pytest.mark.parametrize("text", ["", "time,prompt_tokens,output_tokens\n", "a,b\n1,2\n"])
def test_a_file_without_requests_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LbgenError):
        trace(tmp_path, text)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(LbgenError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_a_trace_is_played_at_the_rate_that_is_asked_for(tmp_path: Path) -> None:
    rows = "".join(f"{second},10,{second + 1}\n" for second in range(100))
    made = trace(tmp_path, "time,prompt_tokens,output_tokens\n" + rows)
    assert made.own_rate == pytest.approx(1.0)
    played = list(made.requests(0, 4.0, 250))
    assert len(played) == 250
    times = [request.arrived for request in played]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(249 / 4)
    assert [request.output_tokens for request in played[99:102]] == [100, 1, 2]
    other = list(made.requests(1, 4.0, 30))
    assert other[0].output_tokens == 31  # another seed, another stretch


def test_times_on_a_coarse_grid_are_spread(tmp_path: Path) -> None:
    lines = "".join(
        f'{{"timestamp": {3000 * (number // 10)}, "input_length": 9, "output_length": 9}}\n'
        for number in range(200)
    )
    made = trace(tmp_path, lines, "grid.jsonl")
    assert made.jittered
    times = [request.arrived for request in made.requests(1, made.own_rate or 0, 200)]
    assert times == sorted(times)
    assert len(set(times)) == 200
    assert not trace(tmp_path, AZURE).jittered
