"""A log beside its prediction: logs are written of runs whose truth is known, and then bent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random

import pytest

from lbgen.cli.guard import run
from lbgen.simulate.load.logs.load import read_replay
from lbgen.simulate.load.workload import Fixed
from lbgen.simulate.runs.clock import Simulation
from lbgen.simulate.servers.setup import ServerSetup, Setup
from lbgen.simulate.servers.step_times.profiles import PROFILES

BEGIN = 1_790_000_000 // 3600 * 3600
NAMES = ("gpu-0", "gpu-1", "gpu-2")
FLEET = """
pools:
  chat:
    strategy: round_robin
    servers: [{name: gpu-0, address: "10.0.0.1:8000"}, {name: gpu-1, address: "10.0.0.2:8000"},
              {name: gpu-2, address: "10.0.0.3:8000"}]
"""


@pytest.fixture(scope="module")
def recorded():
    """Return 1,500 requests that three servers answered in turn, with their times."""
    profile = PROFILES["plain-prompts"]
    setup = Setup(
        tuple(ServerSetup(name, profile, 1, None, True, False) for name in NAMES), "round_robin", {}
    )
    requests = list(Fixed({"prompt": 800, "output": 100}).requests(3, 2.0, 1500))
    Simulation(setup, 1, lambda *_: None, len(requests)).run(iter(requests))
    return requests


def line(number, request, *, token=1.0, first=1.0, server=None):
    """Return a line of lbgen's log; `token` and `first` bend what was measured."""
    first_s = (request.first - request.arrived) * first
    duration = first_s + (request.finished - request.first) * token
    at = datetime.fromtimestamp(BEGIN + request.arrived + duration, UTC)
    return json.dumps({
        "time": at.isoformat(), "method": "POST", "path": "/v1/chat/completions", "status": 200,
        "pool": "chat", "server": server or NAMES[number % 3], "bytes_sent": 25_000, "duration_s": duration,
        "upstream_first_byte_s": first_s, "upstream_total_s": duration,
        "prompt_tokens": 800, "output_tokens": 100,
    })  # fmt: skip


@pytest.fixture
def trial(tmp_path, capsys):
    """Return a function that asks for a log's lines beside the prediction: exit code, output, messages."""

    def call(lines, *words):
        (tmp_path / "access.log").write_text("\n".join(lines) + "\n")
        (tmp_path / "fleet.yaml").write_text(FLEET)
        code = run([
            "trial", str(tmp_path / "fleet.yaml"), "--against-log", str(tmp_path / "access.log"),
            "--profile", "plain-prompts", *words,
        ])  # fmt: skip
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def asked(trial):
    """Return a function that gives the answer as JSON."""

    def call(lines):
        code, out, err = trial(lines, "--format", "json")
        assert code == 0, err
        return json.loads(out)

    return call


def test_the_log_of_such_a_fleet_agrees(recorded, asked):
    found = asked([line(*one) for one in enumerate(recorded)])
    assert found["findings"] == []
    assert (found["requests"], found["failed"], found["strategy"]) == (1500, 0, "round_robin")
    for name, pair in found["figures"].items():
        if pair["measured"] and not name.startswith("queue"):
            assert pair["measured"] == pytest.approx(pair["predicted"], rel=0.15), name
    assert found["shares"]["gpu-1"]["measured"] == pytest.approx(1 / 3, abs=0.01)
    assert len(found["windows"]) > 2


def test_slow_tokens_speak_against_the_profile(recorded, asked):
    (said,) = asked([line(*one, token=1.6) for one in enumerate(recorded)])["findings"]
    assert "1.6 times as long as predicted" in said
    assert "lbgen calibrate" in said


def test_late_first_tokens_speak_against_the_cost_of_prompts(recorded, asked):
    (said,) = asked([line(*one, first=2) for one in enumerate(recorded)])["findings"]
    assert said.startswith("first tokens come 2 times as late")
    assert "prompts cost more than the profile says" in said


def test_without_sizes_of_prompts_the_log_is_blamed(recorded, asked):
    lines = [line(*one, first=2).replace('"prompt_tokens": 800, ', "") for one in enumerate(recorded)]
    said = asked(lines)["findings"]
    assert any("does not tell the sizes of all prompts" in one for one in said)


def test_a_server_that_was_out_is_named_with_its_hour(recorded, asked):
    """In a third of the time gpu-2 took nothing, and what it would have had took long."""
    dice, lines = Random(1), []
    for number, request in enumerate(recorded):
        out = 300 < request.arrived < 600
        server = NAMES[number % 2] if out else NAMES[number % 3]
        slow = out and dice.random() < 0.1
        lines.append(line(number, request, server=server, first=30 if slow else 1))
    said = asked(lines)["findings"]
    assert [one.partition(" took ")[0] for one in said if "should have taken 33%" in one] == ["gpu-2"]
    assert any("whole answer: medians agree" in one and "gpu-2 took nothing then" in one for one in said)


def test_servers_of_another_fleet(recorded, asked):
    lines = [line(*one, server="old-1" if one[0] % 2 else None) for one in enumerate(recorded)]
    assert any("old-1. Another fleet ran then" in one for one in asked(lines)["findings"])


def test_addresses_instead_of_names_tell_nothing(recorded, asked):
    found = asked([line(*one, server="10.0.0.9:80") for one in enumerate(recorded)])
    assert not any("10.0.0.9" in one for one in found["findings"])


def test_a_log_without_durations_cannot_be_compared(trial):
    text = '10.0.0.1 - - [06/Feb/2026:12:14:14 +0000] "POST /v1/completions HTTP/1.1" 200 900 "-" "-"'
    code, _, err = trial([text] * 3)
    assert code == 2
    assert "tells no durations" in err


@pytest.mark.parametrize(
    "words", [("--rate", "3"), ("--strategy", "round_robin", "--strategy", "least_conn")]
)
def test_what_a_log_cannot_have_is_refused(recorded, trial, words):
    code, _, err = trial([line(*one) for one in enumerate(recorded[:50])], *words)
    assert code == 2
    assert "--against-log" in err


def test_haproxys_httplog_tells_server_and_wait(tmp_path):
    text = (
        "Feb  6 12:14:14 lb haproxy[1]: 10.0.1.2:33317 [06/Feb/2026:12:14:14.655] http-in chat/gpu-1 "
        '10/2000/30/690/5000 200 2750 - - ---- 1/1/1/1/0 0/0 "POST /v1/completions HTTP/1.1"\n'
    )
    (tmp_path / "haproxy.log").write_text(text * 2)
    (turn, _) = read_replay(str(tmp_path / "haproxy.log")).turns
    assert (turn.server, turn.queue_s, turn.duration_s) == ("gpu-1", 2.0, 5.0)
    assert turn.first_s == pytest.approx(2.73)


def test_the_table_says_all_of_it(recorded, trial):
    code, out, _ = trial([line(*one, token=1.6) for one in enumerate(recorded)])
    assert code == 0
    for words in ("between tokens", "measured", "predicted", "from (UTC)", "gpu-2", "lbgen calibrate"):
        assert words in out, words
