"""The GitHub action, its own scripts run as they are."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from tests.ci.runner import Runner

ROOT = Path(__file__).parents[2]
FLEET = """\
name: fleet
pools: {chat: {engine: vllm, servers: [gpu-0:8000, gpu-1:8000]}}
listeners: {public: {bind: "127.0.0.1:8080"}}
targets: {haproxy: {version: "3.0"}}
"""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A workspace with one good fleet, and lbgen on PATH, as the step that installs it leaves it."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "fleet.yaml").write_text(FLEET)
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return Runner(workspace, tmp_path / "scratch", {"PATH": paths, "LBGEN_BINARY": "none"})


def run(runner: Runner, **given: str):
    """Run the action's last step, with the inputs that are given."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    inputs = {f"inputs.{name}": one.get("default", "") for name, one in action["inputs"].items()}
    for name, text in given.items():
        assert f"inputs.{name.replace('_', '-')}" in inputs
        inputs[f"inputs.{name.replace('_', '-')}"] = text
    return runner.step(action["runs"]["steps"][-1], inputs, GITHUB_ACTION_PATH=str(ROOT))


def test_a_good_fleet_passes(runner):
    ended = run(runner, fleet="fleet.yaml")
    assert (ended.code, ended.out.strip()) == (0, "")


def test_problems_are_annotations_and_sarif(runner):
    (runner.workspace / "bad.yaml").write_text(FLEET.replace("servers", "sorvers"))
    ended = run(runner, fleet="bad.yaml", sarif="out.sarif", plan_to="rendered", target="haproxy")
    assert ended.code == 1
    assert ended.out.startswith("::error file=bad.yaml,line=2,")
    (problem, *_) = json.loads((runner.workspace / "out.sarif").read_text())["runs"][0]["results"]
    assert problem["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.yaml"
    assert runner.summary.read_text() == ""


def test_strict_takes_warnings_for_failures(runner):
    (runner.workspace / "open.yaml").write_text(FLEET.replace("127.0.0.1:8080", "0.0.0.0:8080"))
    assert run(runner, fleet="open.yaml").code == 0
    ended = run(runner, fleet="open.yaml", strict="true")
    assert ended.code == 1
    assert "::warning file=open.yaml" in ended.out


@pytest.mark.parametrize("text", ["true", "True", "1", "yes"])
def test_strict_in_other_words(runner, text):
    (runner.workspace / "open.yaml").write_text(FLEET.replace("127.0.0.1:8080", "0.0.0.0:8080"))
    assert run(runner, fleet="open.yaml", strict=text).code == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"strict": "ture"}, "::error title=lbgen::strict is true or false"),
        ({"expect": "errors<1"}, "::error title=lbgen::expect is for trial"),
        ({"sarif": "no/such/folder"}, "::error title=lbgen::sarif cannot be written"),
    ],
)
def test_what_would_be_left_undone_is_said(runner, given, said):
    ended = run(runner, fleet="fleet.yaml", **given)
    assert ended.code == 2
    assert said in ended.out


def test_a_missing_fleet_leaves_no_empty_sarif(runner):
    (runner.workspace / "out.sarif").write_text("of the last run")
    assert run(runner, fleet="gone.yaml", sarif="out.sarif").code == 2
    assert not (runner.workspace / "out.sarif").exists()


def test_a_summary_that_cannot_be_written(runner):
    runner.summary = runner.scratch / "no" / "summary.md"
    ended = run(runner, fleet="fleet.yaml", target="haproxy", plan_to="rendered")
    assert ended.code == 2
    assert "::error title=lbgen::GITHUB_STEP_SUMMARY cannot be written" in ended.out
    assert runner.values["steps.run.outputs.changed"] == "true"


def test_outputs_that_cannot_be_written(runner):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = f"GITHUB_OUTPUT=/nowhere/output; export GITHUB_OUTPUT\n{action['runs']['steps'][-1]['run']}"
    given = {"FLEET": "fleet.yaml", "TARGET": "haproxy", "PLAN_TO": "rendered"}
    ended = runner.step({"run": script}, {}, GITHUB_ACTION_PATH=str(ROOT), **given)
    assert ended.code == 2
    assert "::error title=lbgen::GITHUB_OUTPUT cannot be written" in ended.out


def test_a_prediction_that_fails_is_no_block_of_the_summary(runner):
    assert run(runner, fleet="fleet.yaml", simulate="no such strategy").code == 2
    assert runner.summary.read_text() == ""


def test_overlays_and_targets_one_a_line(runner):
    (runner.workspace / "prod.yaml").write_text("pools: {chat: {servers: [prod-0:8000]}}\n")
    ended = run(runner, fleet="\n  fleet.yaml\nprod.yaml  \n", target="nginx\nhaproxy\n", plan_to="rendered")
    assert ended.code == 0, ended.err
    summary = runner.summary.read_text()
    assert summary.count("### lbgen plan: ") == 2
    assert "prod-0" in summary
    assert "gpu-0" not in summary
    assert runner.values["steps.run.outputs.changed"] == "true"
    assert Path(runner.values["steps.run.outputs.plan"]).read_text() in summary


def test_a_plan_without_changes(runner):
    runner.step({"run": "lbgen render fleet.yaml -o rendered"}, {})
    assert run(runner, fleet="fleet.yaml", target="haproxy", plan_to="rendered").code == 0
    assert runner.values["steps.run.outputs.changed"] == "false"


def test_a_plan_needs_a_target(runner):
    ended = run(runner, fleet="fleet.yaml", plan_to="rendered")
    assert ended.code == 2
    assert "::error" in ended.out


def test_a_prediction_is_in_the_summary(runner):
    runner.environ |= {"LBGEN_SIMULATE_REQUESTS": "300", "LBGEN_SIMULATE_SEED": "1"}
    ended = run(runner, fleet="fleet.yaml", simulate="round_robin\nleast_conn")
    assert ended.code == 0, ended.err
    assert "least_conn" in runner.summary.read_text()


@pytest.mark.parametrize("fleet", ["", "\n \n"])
def test_no_fleet_at_all(runner, fleet):
    ended = run(runner, fleet=fleet)
    assert ended.code == 2
    assert "::error" in ended.out


@pytest.mark.parametrize(
    "text",
    ["$(touch owned)", "'; touch owned; '", '"; touch owned; "', "--help", "*.yaml"],
)  # fmt: skip
@pytest.mark.parametrize(
    "name", ["fleet", "target", "binary", "strict", "sarif", "plan_to", "simulate", "trial", "expect"]
)
def test_an_input_is_never_a_command(runner, name, text):
    before = set(runner.workspace.iterdir())
    given = {"fleet": "fleet.yaml", name: text} | ({"target": "haproxy"} if name == "plan_to" else {})
    if name == "expect":
        given["trial"] = "no such strategy"
    ended = run(runner, **given)
    assert "owned" not in {path.name for path in runner.workspace.rglob("*")}
    assert "Usage: lbgen" not in ended.out
    if name in {"fleet", "target", "binary", "simulate", "trial", "expect"}:
        assert ended.code == 2
    else:
        assert {path.name for path in set(runner.workspace.iterdir()) - before} <= {text}


def test_no_script_holds_an_expression():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert all("${{" not in step["run"] for step in action["runs"]["steps"])


def test_the_scripts_install_and_run(runner, tmp_path):
    """The whole action in a clone: only pip's index is kept away, its packages lent by this environment."""
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, clone, ignore=ignored)
    python = Path(sys.executable).resolve()
    runner.environ |= {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }  # fmt: skip
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(python)
    ended = runner.action(clone, {"fleet": "fleet.yaml"})
    assert [one.code for one in ended] == [0, 0], ended
    assert (runner.scratch / "lbgen" / "bin" / "lbgen").exists()
    assert runner.environ["PATH"].startswith(str(runner.scratch / "lbgen" / "bin"))
