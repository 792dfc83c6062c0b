"""The pre-commit hook, run by pre-commit itself from a clone of this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GOOD = 'pools: {chat: {servers: [gpu-0:8000]}}\nlisteners: {public: {bind: "127.0.0.1:8080"}}\n'


def git(folder: Path, *words: str) -> None:
    names = {
        f"GIT_{who}_{what}": "nobody@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    environ = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what is here, committed."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    clone = tmp_path_factory.mktemp("hooks") / "lbgen"
    shutil.copytree(
        ROOT, clone, ignore=shutil.ignore_patterns(".git", ".venv", ".hypothesis", "__pycache__", ".*_cache")
    )
    git(clone, "init", "--quiet", "--initial-branch=main")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message=All of it")
    return clone


def test_a_broken_fleet_is_not_committed(hooks: Path, tmp_path: Path) -> None:
    """pre-commit makes the hook's environment by pip; packages are lent by this one, so no index is asked."""
    program = Path(sys.executable).with_name("pre-commit")
    assert program.exists(), "pre-commit is missing: pip install -e '.[dev]'"
    environ = {
        **os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), "LBGEN_BINARY": "none",
        "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",
        "PYTHONPATH": sysconfig.get_path("purelib"),
        # The hook's environment is made of the Python that runs this test.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    work = tmp_path / "work"
    (work / "fleets").mkdir(parents=True)
    git(work, "init", "--quiet")
    (work / "fleets" / "good.yaml").write_text(GOOD)
    (work / "other.yaml").write_text("not: a fleet\n")
    config = {
        "repos": [{"repo": str(hooks), "rev": "main", "hooks": [{"id": "lbgen-check", "files": "^fleets/"}]}]
    }
    (work / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    git(work, "add", "--all")

    def hook() -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, "run", "--all-files"], cwd=work, env=environ, capture_output=True,
                              text=True, check=False)  # fmt: skip

    first = hook()
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Passed" in first.stdout
    # Two files are two fleets, not one with an overlay: laid over the good one, this would have servers.
    (work / "fleets" / "bad.yaml").write_text("pools: {chat: {engine: vllm}}\n")
    git(work, "add", "--all")
    second = hook()
    assert second.returncode == 1
    assert "fleets/bad.yaml:1:" in second.stdout
    (work / "fleets" / "bad.yaml").write_text(GOOD.replace("gpu-0", "gpu-1"))
    git(work, "add", "--all")
    assert hook().returncode == 0
