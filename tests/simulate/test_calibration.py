"""Step times from measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lbgen.cli.guard import run
from lbgen.problems import LbgenError
from lbgen.simulate.servers.step_times.calibration import read_calibration, read_calibrations
from lbgen.simulate.servers.step_times.profiles import PROFILES

REPORTS = Path(__file__).parent / "reports"
"""Written by the tools before `lbgen mock-gpu --profile a100-8b --slots 64`, and shortened: requests
of 1000 prompt and 150 output tokens (by the tools' tokenizer), 4 and 32 at a time."""
SMALLEST = str(Path(__file__).parents[2] / "examples" / "smallest.yaml")


def saved(folder: Path, data: object) -> Path:
    path = folder / "m.json"
    path.write_text(json.dumps(data))
    return path


def test_guidellm_over_two_concurrencies_gives_step_slope_and_prompt_cost(tmp_path: Path) -> None:
    def one(n: float, token: float, first: float) -> object:
        figures = {"request_concurrency": n, "inter_token_latency_ms": token, "time_to_first_token_ms": first}
        both = {**figures, "prompt_token_count": 1000}
        return {"metrics": {name: {"successful": {"mean": value}} for name, value in both.items()}}

    path = saved(tmp_path, {"benchmarks": [one(30, 13, 300), one(10, 11, 61)]})
    profile = read_calibration(path).applied(PROFILES["h100-8b"])
    assert profile.step == pytest.approx(0.010)
    in_cache = (
        1000 * PROFILES["h100-8b"].per_kv_token
    )  # what a request adds by its context stays the profile's
    assert profile.per_request == pytest.approx(0.0001 - in_cache)
    assert profile.per_prefill_token == pytest.approx(0.00005)
    assert profile.kv_tokens == PROFILES["h100-8b"].kv_tokens


def test_aiperf_gives_one_point(tmp_path: Path) -> None:
    data = {
        "request_throughput": {"unit": "requests/sec", "avg": 5.0},
        "request_latency": {"unit": "ms", "avg": 2000.0},
        "inter_token_latency": {"unit": "ms", "avg": 20.0},
        "time_to_first_token": {"unit": "ms", "avg": 120.0},
    }
    profile = read_calibration(saved(tmp_path, data)).applied(PROFILES["seed"])
    assert profile.step + 10 * profile.per_request == pytest.approx(0.020)


def test_our_own_result_gives_back_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", SMALLEST, "--load", "0.2", "--load", "0.6", "--format", "json", "--requests", "3000"]
    assert run(words) == 0
    path = tmp_path / "m.json"
    path.write_text(capsys.readouterr().out)
    profile = read_calibration(path).applied(PROFILES["a100-8b"])
    assert profile.step == pytest.approx(PROFILES["seed"].step, rel=0.03)
    assert profile.per_request == pytest.approx(PROFILES["seed"].per_request, rel=0.3)
    assert run(["simulate", SMALLEST, "--calibrate", str(path), "--requests", "300"]) == 0
    out, err = capsys.readouterr()
    assert "plain calibrated" in out
    assert "stay the profile's" in err


@pytest.mark.parametrize("data", [{}, [], 3, {"results": []}, {"benchmarks": [{}]}, {"results": [{"ok": 0}]}])
def test_what_says_nothing(tmp_path: Path, data: object) -> None:
    with pytest.raises(LbgenError, match="no times between tokens"):
        read_calibration(saved(tmp_path, data))


def test_aiperfs_own_reports_give_back_the_profile() -> None:
    files = [REPORTS / f"aiperf-0.13.0-concurrency-{count}.json" for count in (4, 32)]
    true = PROFILES["a100-8b"]
    profile = read_calibrations(files).applied(true)
    assert profile.step == pytest.approx(true.step, rel=0.02)
    assert profile.per_request == pytest.approx(true.per_request, rel=0.15)
    assert profile.per_prefill_token == pytest.approx(true.per_prefill_token, rel=0.15)


def test_guidellms_own_report_gives_back_the_profile() -> None:
    true = PROFILES["a100-8b"]
    profile = read_calibration(REPORTS / "guidellm-0.8.1.json").applied(true)
    assert profile.step == pytest.approx(true.step, rel=0.03)
    assert profile.per_prefill_token == pytest.approx(true.per_prefill_token, rel=0.15)
    assert profile.per_request < 3 * true.per_request  # two rounds only: prompts are in half of the steps


def test_tokens_are_counted_by_the_server() -> None:
    report = json.loads((REPORTS / "aiperf-0.13.0-concurrency-4.json").read_text())
    assert report["output_sequence_length"]["avg"] == 200  # by aiperf's tokenizer; the server made 150
    (point,) = read_calibration(REPORTS / "aiperf-0.13.0-concurrency-4.json").points
    assert point.output_tokens == 150
    assert point.token_s == pytest.approx(report["inter_token_latency"]["p10"] / 1000 * 199 / 149)


def test_several_files_are_one_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--calibrate={REPORTS}/aiperf-0.13.0-concurrency-{count}.json" for count in (4, 32)]
    assert run(["simulate", SMALLEST, *words, "--profile=a100-8b", "--requests=300"]) == 0
    assert "calibrated from 2 measurements" in capsys.readouterr().err
