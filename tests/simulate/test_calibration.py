"""Step times from measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lbgen.cli.guard import run
from lbgen.problems import LbgenError
from lbgen.simulate.calibration import read_calibration
from lbgen.simulate.profiles import PROFILES

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
    assert profile.per_request == pytest.approx(0.0001)
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
    assert "seed calibrated" in out
    assert "stay the profile's" in err


@pytest.mark.parametrize("data", [{}, [], 3, {"results": []}, {"benchmarks": [{}]}, {"results": [{"ok": 0}]}])
def test_what_says_nothing(tmp_path: Path, data: object) -> None:
    with pytest.raises(LbgenError, match="no times between tokens"):
        read_calibration(saved(tmp_path, data))
