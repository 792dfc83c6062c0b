"""Completion as shells ask for it: bash itself, and what the scripts of zsh and fish ask lbgen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LBGEN = Path(sys.executable).parent / "lbgen"


def words(shell: str, line: str, folder: Path) -> list[str]:
    """What a shell offers behind a line that is being typed."""
    environ = {**os.environ, "PATH": f"{LBGEN.parent}:{os.environ['PATH']}"}
    if shell == "bash":
        # bash calls the function of the script, with the line in these variables.
        script = (
            'eval "$(lbgen completion bash)"; read -ra COMP_WORDS <<<"$1"\n'
            '[[ $1 == *" " ]] && COMP_WORDS+=("")\n'
            'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lbgen_completion lbgen; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = ["bash", "-c", script, "bash", line]
    else:
        whole = line.rpartition(" ")
        environ |= {
            "_LBGEN_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": line if shell == "zsh" else whole[0],
            "COMP_CWORD": whole[2] if shell == "fish" else str(len(line.split(" ")) - 1),
        }
        command = [str(LBGEN)]
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    if shell == "zsh":  # a kind, a word and its help on a line each
        return lines[1::3]
    return [one.partition(",")[2].partition("\t")[0] if shell == "fish" else one for one in lines]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_values_are_completed(shell: str, tmp_path: Path) -> None:
    assert words(shell, "lbgen si", tmp_path) == ["simulate", "size"]
    assert words(shell, "lbgen render --diff --tem", tmp_path) == ["--templates"]
    assert words(shell, "lbgen render --target ha", tmp_path) == ["haproxy"]
    assert words(shell, "lbgen completion ", tmp_path) == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    script = subprocess.run([LBGEN, "completion", shell], capture_output=True, text=True, check=True).stdout
    assert f"_LBGEN_COMPLETE={shell}_complete" in script
