"""The pipelines that people copy: every script of them is run, with the real programs behind it."""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from integration.debian import ImageError
from integration.images import GENERATIONS, resolve
from integration.pods import lbgen
from lbgen.lab.problems import RigError
from lbgen.lab.rig import connect
from tests.ci.runner import Ended, Runner, filled

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "ci"
OTHERS = {"actions/checkout@v4", "github/codeql-action/upload-sarif@v3"}
FLEET = {
    "name": "fleet",
    "pools": {"chat": {"engine": "vllm", "servers": "gpu-[0-3]:8000"}},
    "listeners": {"public": {"bind": "127.0.0.1:8080", "auth": "none"}},
    "targets": {"haproxy": {"version": GENERATIONS["bookworm"].haproxy}},
}
STUB = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0") $*" >>"$STUB_LOG"\n'


@pytest.fixture
def images() -> dict[str, str]:
    """The local images of the programs, where Docker is there."""
    try:
        connect()
        return {name: resolve("bookworm", name) for name in ("nginx", "haproxy", "python")}
    except (RigError, ImageError) as error:
        pytest.skip(str(error))


@pytest.fixture
def runner(images: dict[str, str], tmp_path: Path) -> Runner:
    """A repository whose committed files are those of its fleet, and programs that only note their calls."""
    workspace = tmp_path / "repository"
    workspace.mkdir()
    (workspace / "fleet.yaml").write_text(yaml.safe_dump(FLEET))
    assert lbgen("render", "fleet.yaml", "-o", "rendered", cwd=workspace).returncode == 0
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name in ("gh", "curl", "apt-get", "pip"):
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(0o755)
    environ = {
        "PATH": os.pathsep.join((str(stubs), str(Path(sys.executable).parent), os.environ["PATH"])),
        "STUB_LOG": str(tmp_path / "calls"),
        "LBGEN_TRIAL_RUNTIME": "docker",
        "LBGEN_TRIAL_IMAGE": f"haproxy={images['haproxy']} mock={images['python']}",
        # With few slots strategies differ: least_conn answers just these requests 12 % faster (P99).
        "LBGEN_TRIAL_REQUESTS": "100",
        "LBGEN_TRIAL_SLOTS": "4",
    }
    (tmp_path / "calls").touch()
    return Runner(workspace, tmp_path / "scratch", environ)


def change(runner: Runner, **changes: Any) -> None:
    pool = {**FLEET["pools"]["chat"], **changes}  # type: ignore[index]
    (runner.workspace / "fleet.yaml").write_text(yaml.safe_dump({**FLEET, "pools": {"chat": pool}}))


def calls(runner: Runner) -> list[str]:
    return Path(runner.environ["STUB_LOG"]).read_text().splitlines()


def workflow(runner: Runner, images: Mapping[str, str], **given: str) -> dict[str, list[Ended]]:
    """Run GitHub's example as a pull request; return how each of its steps ended, by name or action."""
    jobs = yaml.safe_load((EXAMPLES / "github.yml").read_text())
    local = {f"docker://{name}:[0-9.]+": f"docker://{image}" for name, image in images.items()}
    for name, text in jobs["env"].items():
        for official, image in local.items():
            text = re.sub(official, image, text)  # noqa: PLW2901 - one after the other
        runner.environ[name] = text
    runner.values |= {"github.token": "token", "github.event.pull_request.number": "7"}
    ended = {}
    for step in jobs["jobs"]["fleet"]["steps"]:
        if "run" in step:
            if "if" not in step or runner.values["steps.lbgen.outputs.changed"] == "true":
                ended[step["name"]] = [runner.step(step, runner.values)]
        elif step["uses"] not in OTHERS:
            assert step["uses"].startswith("your-organisation/lbgen@")
            # Installing is the unit tests' part; here lbgen is on PATH already.
            inputs = {**step["with"], **given}
            ended["lbgen"] = runner.action(ROOT, inputs, step["id"], without="Install lbgen")
    return ended


def test_a_change_is_checked_planned_tried_and_commented(runner: Runner, images: dict[str, str]) -> None:
    change(runner, strategy="least_conn", max_in_flight=16)
    ended = workflow(runner, images)
    assert [one.code for one in ended["lbgen"]] == [0], ended["lbgen"]
    assert "haproxy 2.6" in ended["lbgen"][-1].err  # the real one, which was required
    summary = runner.summary.read_text()
    assert "### lbgen plan: haproxy" in summary
    assert re.search(r"### lbgen trial\n\n.*round_robin.*least_conn", summary, re.DOTALL)
    (call,) = [one for one in calls(runner) if one.startswith("gh ")]
    body = Path(call.rpartition(" ")[2])
    assert call.startswith("gh pr comment 7 --body-file ")
    assert re.search(r"max_in_flight \S+ → 16", html.unescape(body.read_text()))
    assert (runner.workspace / "lbgen.sarif").exists()
    # The files were not rendered anew, and that is what the last step is for.
    assert ended["Compare the committed files"][0].code == 1
    assert lbgen("render", "fleet.yaml", "-o", "rendered", cwd=runner.workspace).returncode == 0
    ended = workflow(runner, images, trial="", expect="")
    assert ended["Compare the committed files"][0].code == 0
    assert "Comment with the plan" not in ended


def test_a_change_that_unbalances_is_refused(runner: Runner, images: dict[str, str]) -> None:
    ended = workflow(runner, images, expect="p99(least_conn)<0.01*p99(round_robin)")
    assert ended["lbgen"][-1].code == 1
    assert "expected p99(least_conn)<0.01*p99(round_robin)" in ended["lbgen"][-1].err


def test_gitlab_s_jobs(runner: Runner) -> None:
    jobs = yaml.safe_load((EXAMPLES / "gitlab.yml").read_text())
    runner.environ |= {
        "CI_API_V4_URL": "https://gitlab.example.org/api/v4", "CI_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_IID": "2", "COMMENT_TOKEN": "token",
    }  # fmt: skip
    runner.environ |= jobs["variables"]
    scripts = {name: job["script"] for name, job in jobs.items() if isinstance(job, dict) and "script" in job}
    assert {jobs[name]["stage"] for name in scripts} == set(jobs["stages"])
    for name, lines in scripts.items():
        script = "\n".join([*jobs["default"]["before_script"], *lines])
        ended = runner.step({"run": script}, {})
        assert ended.code == 0, (name, ended)
    assert "plan: haproxy" in (runner.workspace / "plan.md").read_text()
    (call,) = [one for one in calls(runner) if one.startswith("curl ")]
    assert call.endswith("/projects/1/merge_requests/2/notes")
    change(runner, servers="gpu-[0-1]:8000")
    ended = runner.step({"run": "\n".join(scripts["check-fleet"])}, {})
    assert ended.code == 1


def test_the_runner_knows_no_other_expression() -> None:
    with pytest.raises(KeyError):
        filled("${{ github.event.pull_request.title }}", {})
