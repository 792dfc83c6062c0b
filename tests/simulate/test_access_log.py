"""Access logs as the load: what each format tells, and what is said of the rest."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lbgen.cli.guard import run
from lbgen.problems import FleetError, LbgenError
from lbgen.simulate.load.logs.lines import COMBINED, HTTPLOG, JSON, parsed
from lbgen.simulate.load.logs.load import is_log, read_log
from lbgen.simulate.load.logs.replay import Turn, busiest

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.simulate.load.logs.replay import Log

# As HAProxy 2.6.12 and NGINX 1.22.1 write them with what lbgen renders.
OURS_HAPROXY = (
    '{"time":"2026-11-30T13:31:23+00:00","request_id":"5a6b","client":"","method":"POST",'
    '"path":"\\/v1\\/chat\\/completions","listener":"local","pool":"chat","server":"gpu-1","decision":"",'
    '"status":200,"bytes_sent":2904,"duration_s":148e-3,"upstream_connect_s":1e-3,'
    '"upstream_first_byte_s":1e-3,"upstream_total_s":147e-3,"retries":0}'
)
OURS_NGINX = (
    '{"time":"2026-11-30T13:31:41+00:00","request_id":"4b45","client":"","method":"POST",'
    '"path":"/v1/chat/completions","listener":"local","pool":"chat","server":"gpu-1","decision":"",'
    '"status":200,"bytes_sent":2922,"duration_s":0.148,"upstream_connect_s":0.000,'
    '"upstream_first_byte_s":0.001,"upstream_total_s":0.148,"retries":0}'
)
HTTP = (
    "127.0.0.1:50334 [30/Nov/2026:13:32:18.785] f chat/a 0/2/1/20/147 200 2902 - - ---- 1/1/0/0/0 0/0 "
    '"POST /v1/chat/completions?key=sk-secret HTTP/1.1"'
)
APACHE = (
    '10.0.0.9 - bob [30/Nov/2026:14:32:38 +0100] "POST /v1/completions?key=sk-secret HTTP/1.1" 200 351 "-"'
)


def log(folder: Path, *lines: str, terms: str = "", **values: float | str) -> Log:
    path = folder / "access.log"
    path.write_text("\n".join(lines) + "\n")
    return read_log(f"{path}{terms}", **values)  # type: ignore[arg-type]


def line(at_s: float, **values: object) -> str:
    return json.dumps({"time": at_s, "duration_s": 0.0, "method": "POST", "status": 200, **values})


@pytest.mark.parametrize(
    ("text", "form", "at_s", "times", "sent"),
    [
        (OURS_HAPROXY, JSON, 1796045482.852, (0.148, 0.002), 2904),
        (OURS_NGINX, JSON, 1796045500.852, (0.148, 0.001), 2922),
        (
            f"<134>1 2026-11-30T13:31:41+00:00 h lb 1 - - {OURS_NGINX}",
            JSON,
            1796045500.852,
            (0.148, 0.001),
            2922,
        ),
        (HTTP, HTTPLOG, 1796045538.785, (0.147, 0.023), 2902),
        (f"Nov 30 13:32:18 host haproxy[7]: {HTTP}", HTTPLOG, 1796045538.785, (0.147, 0.023), 2902),
        (APACHE, COMBINED, 1796045558.0, (None, None), 351),
    ],
)
def test_each_format_is_read(
    text: str, form: str, at_s: float, times: tuple[float | None, float | None], sent: int
) -> None:
    found = parsed(text)
    assert found.form == form
    assert found.at_s == pytest.approx(at_s, abs=1e-4)
    assert (found.duration_s, found.sent_bytes) == (times[0], sent)
    assert found.first_s == (times[1] and pytest.approx(times[1]))
    assert (found.method, found.status) == ("POST", 200)
    assert found.whole_seconds == (form != HTTPLOG)
    assert "secret" not in str(found)
    assert "10.0.0.9" not in str(found)


def test_other_json_is_read_by_the_names_that_programs_use() -> None:
    found = parsed(
        '{"time_local": "30/Nov/2026:14:32:38 +0100", "request": "POST /v1/x?k=1 HTTP/1.1", "status": "200", '
        '"body_bytes_sent": "800", "request_time": "1.5", "upstream_header_time": "0.2, 0.4", '
        '"request_length": "4000", "conversation": "c1"}'
    )
    assert (found.at_s, found.path, found.status, found.sent_bytes) == (1796045556.5, "/v1/x", 200, 800)
    assert (found.first_s, found.prompt_bytes, found.session) == (0.4, 4000, "c1")
    assert parsed('{"msec": "1796045558.250", "user": "u1"}', "user").session == "u1"
    assert parsed('{"ts": 1796045558250}').at_s == 1796045558.25


@pytest.mark.parametrize(
    "text",
    ["hello", "{}", '{"time": "noon"}', '{"time": NaN}', '{"time": -1}', "{" * 5000 + "}", '{"time": [1]}',
     "x" * 70_000,
     HTTP.replace("Nov", "Foo"), APACHE.replace("30/Nov", "31/Nov"), '{"time": "1e400"}'],
)  # fmt: skip
def test_what_is_no_line_is_said_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"(is no line|has|not a date|day is out of range)"):
        parsed(text)


def test_answers_are_counted_from_bytes_by_what_is_stated(tmp_path: Path) -> None:
    lines = [
        line(0, bytes_sent=2400, duration_s=5, upstream_first_byte_s=0.1),  # a stream
        line(1, bytes_sent=2400, duration_s=5, upstream_first_byte_s=4.5),
        line(2, bytes_sent=2400, duration_s=5, upstream_first_byte_s=0.1, max_tokens=7),
        line(3, bytes_sent=2400, output_tokens=3),
    ]
    lines = [text.replace('"time": ', '"time": 10') for text in lines]
    made = log(tmp_path, *lines)
    assert sorted(turn.output_tokens for turn in made.turns) == [3, 7, 10, 500]
    assert any("240 bytes of a stream are a token, 4 of another answer" in text for text in made.said)
    made = log(tmp_path, *lines, terms=":stream_bytes=120,answer_bytes=8")
    assert sorted(turn.output_tokens for turn in made.turns) == [3, 7, 20, 250]


def test_what_the_log_does_not_tell_is_said(tmp_path: Path) -> None:
    said = "\n".join(log(tmp_path, APACHE, APACHE).said)
    for words in (
        "how long requests took is not in the log", "512 tokens each (prompt=N)", "all are taken for streams",
        "without prefix hits",
    ):  # fmt: skip
        assert words in said
    assert {turn.prompt_tokens for turn in log(tmp_path, APACHE, APACHE, terms=":prompt=99").turns} == {99}
    told = "\n".join(
        log(tmp_path, *(line(n, prompt_bytes=400, bytes_sent=9, session="a") for n in (1, 2))).said
    )
    assert "4 bytes of the body are a token" in told
    assert "conversations: 1; their turns are taken to repeat" in told


def test_what_is_no_load_is_counted(tmp_path: Path) -> None:
    made = log(
        tmp_path,
        *(line(n, bytes_sent=900) for n in range(1, 9)),
        line(9, bytes_sent=900, status=429),
        line(9, bytes_sent=900, method="GET"),
        line(9, bytes_sent=900, path="/v1/embeddings"),
        "\x00\x01 broken",
        "",
        "also broken",
    )
    assert len(made.turns) == 8
    assert "13 lines of JSON" in made.said[0]
    assert "1 refused or failed" in made.said[0]
    assert "1 other than POST" in made.said[0]
    assert "2 cannot be read (line 12, 14; 12 is no line of an access log" in made.said[0]


def test_a_file_of_something_else_is_refused_with_its_lines(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as caught:
        log(tmp_path, "a,b", "1,2", line(1, bytes_sent=1))
    assert [problem.location.line for problem in caught.value.problems if problem.location] == [1, 2]
    with pytest.raises(LbgenError, match="is empty"):
        log(tmp_path, "")
    with pytest.raises(LbgenError, match="1 requests that count"):
        log(tmp_path, line(1, bytes_sent=9))


@pytest.mark.parametrize(
    "terms", [":prompt=x", ":prompt=-1", ":nonsense=1", ":stream_bytes=0", ":window=soon", ":pool=other"]
)
def test_terms_that_make_no_sense(tmp_path: Path, terms: str) -> None:
    with pytest.raises(LbgenError):
        log(tmp_path, OURS_NGINX, OURS_NGINX, terms=terms)


def test_the_lines_of_a_pool_count_alone(tmp_path: Path) -> None:
    lines = [line(n, bytes_sent=900, pool="a" if n % 3 else "b") for n in range(1, 31)]
    assert len(log(tmp_path, *lines, pool="b").turns) == 10
    assert len(log(tmp_path, *lines, terms=":pool=a").turns) == 20
    everything = log(tmp_path, *lines, pool="elsewhere")
    assert len(everything.turns) == 30
    assert any("pool=NAME picks one of a, b" in text for text in everything.said)


def test_the_busiest_stretch_is_what_counts() -> None:
    times = [0.0, 50, 100, 101, 102, 103, 200, 201]
    turns = [Turn(at, 1, 1) for at in times]
    assert [turn.at_s for turn in busiest(turns, 10)] == [100, 101, 102, 103]


def test_a_log_is_played_at_its_own_rate_or_another(tmp_path: Path) -> None:
    made = log(tmp_path, *(line(n / 4 + 1000.1, bytes_sent=900) for n in range(400)))
    assert made.own_rate == pytest.approx(4, rel=0.01)
    for rate in (4.0, 40.0):
        arrived = [request.arrived for request in made.requests(1, rate, 2_000)]
        assert len(arrived) == 2_000
        assert arrived == sorted(arrived)
        assert 2_000 / (arrived[-1] - arrived[0]) == pytest.approx(rate, rel=0.02)


def test_seeds_of_a_sized_log_draw_other_stretches(tmp_path: Path) -> None:
    lines = [line(n + 1000, bytes_sent=240 * (n + 1), session="s") for n in range(200)]
    made = log(tmp_path, *lines, busiest_s=600.0)
    first, again, second = (
        [request.output_tokens for request in made.requests(seed, 1.0, 200)] for seed in (1, 1, 2)
    )
    assert first == again != second
    assert set(first) < set(range(1, 201))  # with replacement: some come twice, others not at all
    assert len(first) == 200


def test_turns_of_a_conversation_repeat_what_was_said(tmp_path: Path) -> None:
    sizes = ((2048, "a"), (2048, "b"), (8192, "a"))
    lines = [
        line(n + 1000, prompt_tokens=size, output_tokens=600, session=name)
        for n, (size, name) in enumerate(sizes)
    ]
    played = list(log(tmp_path, *lines).requests(0, 1.0, 12))
    whole = {name for name, count in Counter(one.conversation for one in played).items() if count == 2}
    assert whole
    for name in whole:
        first, second = (one for one in played if one.conversation == name)
        assert (first.prompt_tokens, second.prompt_tokens) == (2048, 8192)
        assert len(second.chunks) == (8192 + 600) // 512
        assert second.chunks[: len(first.chunks)] == first.chunks
    others = [one for one in played if one.prompt_tokens == 2048 and one.conversation not in whole]
    assert {chunk for one in others for chunk in one.chunks}.isdisjoint(second.chunks)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.log", "", True),
        ("a.log.1", "", True),
        ("a.jsonl", OURS_NGINX, True),
        ("a.jsonl", '{"timestamp": 0, "input_length": 1, "output_length": 5}', False),
        ("access", HTTP, True),
        ("a.csv", "time,prompt_tokens,output_tokens", False),
        ("a", "time,prompt_tokens,output_tokens", False),
    ],
)
def test_logs_are_told_from_traces(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    path = tmp_path / name
    path.write_text(text + "\n")
    assert is_log(str(path)) == expected
    assert is_log(f"{path}:prompt=7") == expected


def test_the_commands_take_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet, path = tmp_path / "fleet.yaml", tmp_path / "access.log"
    fleet.write_text("pools: {chat: {servers: [a:1, b:1]}}\n")
    lines = [
        line(n / 9 + 1000, bytes_sent=24_000, path="/v1/x?prompt=secret", pool="chat") for n in range(900)
    ]
    path.write_text("\n".join(["broken", *lines]))
    few = ["--requests", "500", "--seed", "1", "--seed", "2", "--strategy", "least_conn", "--format", "json"]
    assert run(["simulate", str(fleet), "--workload", str(path), *few]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["workload"]["rate_per_s"] == pytest.approx(9, rel=0.01)
    assert "access.log: 900 requests of chat" in err
    assert "1 cannot be read (line 1;" in err
    assert run(["size", str(fleet), "--log", str(path), "--objective", "ttft_p99<1s", *few]) == 0
    out, err = capsys.readouterr()
    (pool,) = json.loads(out)["pools"]
    assert pool["workload"]["rate_per_s"] == pytest.approx(9, rel=0.01)
    assert any("900 requests of chat" in text for text in pool["workload"]["assumed"])
    assert "secret" not in out + err
    path.write_bytes(b"\xff\xfe\x00" * 1000)
    assert run(["size", str(fleet), "--log", str(path), "--objective", "ttft_p99<1s"]) == 1
    assert f"{path}:1:1: error[bad-log-line]" in capsys.readouterr().err
    assert run(["size", str(fleet), "--log", str(tmp_path / "none.log"), "--objective", "ttft_p99<1s"]) == 2
