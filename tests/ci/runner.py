"""A runner for GitHub's workflows, as small as the examples need: steps, composite actions, expressions.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
_STRICT = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What `shell: bash` stands for."""


class Ended(NamedTuple):
    """How a step ended."""

    code: int
    out: str
    err: str


class Runner:
    """One job on one machine: a workspace, an environment, and what its steps said."""

    def __init__(self, workspace: Path, scratch: Path, environ: Mapping[str, str]) -> None:
        self.workspace = workspace
        self.scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        self.environ = {**environ, "GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(scratch)}
        self.values: dict[str, str] = {}
        """What expressions stand for, by their text."""
        self.summary = scratch / "summary.md"
        self.summary.touch()

    def step(self, step: Mapping[str, Any], values: Mapping[str, str], **environ: str) -> Ended:
        """Run a step with a script; its outputs become values of later expressions."""
        assert _EXPRESSION.search(step["run"]) is None, "an expression inside a script can become code"
        output, path, script = (self.scratch / name for name in ("output", "path", "script.sh"))
        for file in (output, path):
            file.write_text("")
        script.write_text(step["run"])
        own = {name: filled(str(text), values) for name, text in step.get("env", {}).items()}
        done = subprocess.run(
            [*_STRICT, str(script)] if step.get("shell") == "bash" else ["bash", "-e", str(script)],
            cwd=self.workspace,
            env={**self.environ, **environ, **own, "GITHUB_OUTPUT": str(output), "GITHUB_PATH": str(path),
                 "GITHUB_STEP_SUMMARY": str(self.summary)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        for line in path.read_text().splitlines():
            self.environ["PATH"] = f"{line}{os.pathsep}{self.environ['PATH']}"
        if "id" in step:
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                self.values[f"steps.{step['id']}.outputs.{name}"] = value
        return Ended(done.returncode, done.stdout, done.stderr)

    def action(
        self, folder: Path, given: Mapping[str, str], as_id: str = "action", without: str = ""
    ) -> list[Ended]:
        """Run a composite action `without` one step, up to the first that fails; outputs go by `as_id`."""
        action = yaml.safe_load((folder / "action.yml").read_text())
        unknown = set(given) - set(action["inputs"])
        assert not unknown, f"no inputs of the action: {unknown}"
        inputs = {f"inputs.{name}": one.get("default", "") for name, one in action["inputs"].items()}
        inputs |= {f"inputs.{name}": text for name, text in given.items()}
        ended = []
        for step in action["runs"]["steps"]:
            assert step["shell"] == "bash"
            if step["name"] == without:
                continue
            ended.append(self.step(step, inputs, GITHUB_ACTION_PATH=str(folder)))
            if ended[-1].code != 0:
                break
        for name, one in action["outputs"].items():
            values = {"steps.run.outputs.plan": "", "steps.run.outputs.changed": "", **self.values}
            self.values[f"steps.{as_id}.outputs.{name}"] = filled(one["value"], values)
        return ended


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its expressions replaced; an unknown one raises `KeyError`."""
    return _EXPRESSION.sub(lambda match: values[match[1]], text)
