"""The recipes of `docs/architecture.md`, followed to the letter on a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLEET = """\
pools:
  chat:
    engine: vllm
    strategy: by_turns
    servers: [gpu-0:8000, gpu-1:8000]
listeners:
  local: {bind: 127.0.0.1:8080}
"""
STRATEGY = '''\
"""One server after the other."""

from lbgen.strategies.spec import MadeBy, Strategy

BY_TURNS = Strategy(
    name="by_turns",
    aliases=("turns",),
    summary="equalises the number of requests",
    advice="An example.",
    parameters=(),
    chooser=MadeBy("turns", "RoundRobin"),
)
'''
RULE = '''\
"""Rules of an example."""

from lbgen.fleet.rules.rule import Finding, Rule
from lbgen.problems import Severity


def odd_name(fleet):
    """Find pools with a name that is not liked."""
    for pool in fleet.pools:
        if pool.name == "chat":
            yield Finding(pool.path, "this name is not liked")


RULES = (Rule("odd-name", Severity.WARNING, "a name is odd", "An example.", "write another", odd_name),)
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of what runs."""
    for name in ("lbgen", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fleet.yaml").write_text(FLEET)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1, f"{path.name} has no {old!r}: change the recipe, or this test"
    path.write_text(text.replace(old, new, 1))


def lbgen(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(tree / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "lbgen", *arguments],
        cwd=tree, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_strategy_is_a_file_a_line_and_a_row_for_each_target(tree: Path) -> None:
    strategies = tree / "lbgen/strategies"
    (strategies / "by_turns.py").write_text(STRATEGY)
    edit(
        strategies / "registry.py",
        "from lbgen.strategies.kv_cache",
        "from lbgen.strategies.by_turns import BY_TURNS\nfrom lbgen.strategies.kv_cache",
    )
    edit(strategies / "registry.py", "for strategy in (", "for strategy in (BY_TURNS, ")
    row = 'STRATEGIES: Mapping[str, Way] = {\n    "by_turns": Way(_always, '
    edit(
        tree / "lbgen/targets/nginx/strategies.py",
        "STRATEGIES: Mapping[str, Way] = {",
        f'{row}lambda _made, _pool: Syntax("random")),',
    )
    edit(
        tree / "lbgen/targets/haproxy/strategies.py",
        "STRATEGIES: Mapping[str, Way] = {",
        f'{row}_by("static-rr")),',
    )
    for target, words in (("nginx", "    random;"), ("haproxy", "balance static-rr")):
        done = lbgen(tree, "render", "fleet.yaml", "-t", target)
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
    checked = lbgen(tree, "check", "fleet.yaml", "--binary", "none", "--set", "pools.chat.strategy=turns")
    assert checked.returncode == 0, checked.stderr
    assert "name: by_turns" in lbgen(tree, "show", "fleet.yaml").stdout
    predicted = lbgen(tree, "simulate", "fleet.yaml", "--strategy", "by_turns", "--requests", "200")
    assert predicted.returncode == 0, predicted.stderr
    assert "by_turns" in predicted.stdout


def test_a_rule_is_a_function_under_a_code(tree: Path) -> None:
    rules = tree / "lbgen/fleet/rules"
    (rules / "example.py").write_text(RULE)
    edit(
        rules / "registry.py",
        "from lbgen.fleet.rules.exposure",
        "from lbgen.fleet.rules.example import RULES as EXAMPLE\nfrom lbgen.fleet.rules.exposure",
    )
    edit(rules / "registry.py", '    "Routes"', '    "Example": EXAMPLE,\n    "Routes"')
    done = lbgen(tree, "check", "fleet.yaml", "--binary", "none", "--set", "pools.chat.strategy=least_conn")
    assert done.returncode == 0, done.stderr
    assert "warning[odd-name]: this name is not liked" in done.stderr
