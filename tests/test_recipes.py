"""The recipes of CONTRIBUTING and `docs/architecture.md`, followed to the letter on a copy of the tree."""

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

ENGINE = """    Engine(
        name="ember", title="Ember", port=9000, health_path="/ready", health_paths=("/ready",),
        keep_alive=30_000, parallelism=4, sources=("an example",),
    ),
"""
COMMAND = '''\
"""``lbgen count``."""

import click

from lbgen.cli.inputs import load_fleet, usable_fleet
from lbgen.cli.options import Command, fleet_options


@click.command(cls=Command)
@fleet_options
@click.pass_obj
def command(console, /, request):
    """Count the servers."""
    fleet = usable_fleet(console, load_fleet(console, request), request)
    console.result(str(sum(len(pool.servers) for pool in fleet.pools)))
'''
FORM = '''\
"""The files' names, for an example."""

from lbgen.manifests.order import Made
from lbgen.render import RenderedFile, render


def listing(order):
    """Return a list of the files beside the files."""
    files = render(order.fleet, order.target, "all", order.templates, order.secrets, order.settle)
    text = order.header + "\\n".join(file.path for file in files) + "\\n"
    return Made((RenderedFile("listing.txt", text), *files), ())
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
    path = f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(tree / "cache"), "PATH": path}
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
        tree / "lbgen/targets/nginx/pools/strategies.py",
        "STRATEGIES: Mapping[str, Way] = {",
        f'{row}lambda _made, _pool: Syntax("random")),',
    )
    edit(
        tree / "lbgen/targets/haproxy/pools/strategies.py",
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
        "from lbgen.fleet.rules.edge.exposure",
        "from lbgen.fleet.rules.example import RULES as EXAMPLE\nfrom lbgen.fleet.rules.edge.exposure",
    )
    edit(rules / "registry.py", '    "Routes"', '    "Example": EXAMPLE,\n    "Routes"')
    done = lbgen(tree, "check", "fleet.yaml", "--binary", "none", "--set", "pools.chat.strategy=least_conn")
    assert done.returncode == 0, done.stderr
    assert "warning[odd-name]: this name is not liked" in done.stderr


@pytest.fixture
def toy(tree: Path) -> Path:
    """Return a copy with one more target: a package, a folder of templates, a line in the registry."""
    recipe = ROOT / "tests/recipes"
    package, templates, programs = tree / "lbgen/targets/toy", tree / "templates/toy", tree / "bin"
    for folder in (package, templates, programs):
        folder.mkdir()
    shutil.copy(recipe / "toy_target.py", package / "__init__.py")
    shutil.copy(recipe / "toy.conf.j2", templates)
    shutil.copy(recipe / "toy", programs)  # its program, as installed on the machine
    registry = tree / "lbgen/targets/registry.py"
    edit(
        registry,
        "from lbgen.targets.nginx import NGINX\n",
        "from lbgen.targets.nginx import NGINX\nfrom lbgen.targets.toy import TOY\n",
    )
    edit(registry, "in (NGINX,", "in (TOY, NGINX,")
    edit(tree / "fleet.yaml", "by_turns", "round_robin")
    return tree


def test_a_target_renders_and_has_keys_of_its_own(toy: Path) -> None:
    done = lbgen(toy, "render", "fleet.yaml", "-t", "toy", "--set", "targets.toy.slots=7")
    assert done.returncode == 0, done.stderr
    assert "slots 7\n" in done.stdout
    assert "pool chat round_robin\n  server gpu-0 gpu-0:8000 1\n" in done.stdout
    wrong = lbgen(toy, "check", "fleet.yaml", "--set", "targets.toy.slots=0")
    assert (wrong.returncode, "targets.toy.slots" in wrong.stderr) == (1, True), wrong.stderr
    assert '"slots"' in lbgen(toy, "schema").stdout
    assert "slots: 100" in lbgen(toy, "show", "fleet.yaml", "-t", "toy").stdout


def test_a_target_is_checked_by_its_own_program(toy: Path) -> None:
    done = lbgen(toy, "check", "fleet.yaml", "-t", "toy")
    assert (done.returncode, "toy 1.0: ok" in done.stderr + done.stdout) == (0, True), done.stderr
    edit(toy / "templates/toy/toy.conf.j2", "slots", "words that it does not know\nslots")
    wrong = lbgen(toy, "check", "fleet.yaml", "-t", "toy")
    assert wrong.returncode == 1
    assert "toy/toy.conf:2:1: error[toy-says]: what is this?" in wrong.stderr


def test_a_target_is_planned_and_applied_by_pools_and_servers(toy: Path) -> None:
    to = ("-t", "toy", "--to", "etc")
    assert "2 servers" in lbgen(toy, "plan", "fleet.yaml", *to).stdout
    applied = lbgen(toy, "apply", "fleet.yaml", *to)
    assert applied.returncode == 0, applied.stderr
    assert "server gpu-1 gpu-1:8000 1" in (toy / "etc/toy.conf").read_text()
    assert "no changes" in lbgen(toy, "plan", "fleet.yaml", *to).stdout
    more = lbgen(toy, "plan", "fleet.yaml", *to, "--set", "pools.chat.servers=[gpu-0:8000]")
    assert "- gpu-1" in more.stdout
    assert "--max-change 50%" in more.stdout, "what the target reads back tells how much is lost"


def test_a_target_is_predicted(toy: Path) -> None:
    done = lbgen(toy, "simulate", "fleet.yaml", "-t", "toy", "--strategy", "least_conn", "--requests", "200")
    assert done.returncode == 0, done.stderr
    assert "least_conn" in done.stdout
    refused = lbgen(toy, "simulate", "fleet.yaml", "-t", "toy", "--strategy", "pack", "--requests", "200")
    assert "pack is more than it can" in refused.stdout + refused.stderr


def test_an_engine_is_an_entry(tree: Path) -> None:
    before = '    Engine(\n        name="openai"'
    edit(tree / "lbgen/engines.py", before, ENGINE + before)
    edit(tree / "fleet.yaml", "by_turns", "round_robin")
    done = lbgen(tree, "render", "fleet.yaml", "-t", "haproxy", "--set", "pools.chat.engine=ember")
    assert done.returncode == 0, done.stderr
    assert "uri /ready" in done.stdout


def test_a_command_is_a_file_and_a_line(tree: Path) -> None:
    (tree / "lbgen/cli/operate/count.py").write_text(COMMAND)
    edit(
        tree / "lbgen/cli/app.py",
        '            "render":',
        '            "count": "Count the servers.",\n            "render":',
    )
    edit(tree / "fleet.yaml", "by_turns", "round_robin")
    done = lbgen(tree, "count", "fleet.yaml")
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert "Count the servers." in lbgen(tree, "--help").stdout


def test_a_key_is_a_field_and_its_places(tree: Path) -> None:
    edit(
        tree / "lbgen/fleet/schema/pool.py",
        '    Field(\n        "max_in_flight",',
        '    Field("owner", Text("a team"), "nobody", "Who pays."),\n    Field(\n        "max_in_flight",',
    )
    edit(tree / "lbgen/model.py", "    allow_empty: bool\n", "    owner: str\n    allow_empty: bool\n")
    edit(
        tree / "lbgen/fleet/build/pools.py",
        "        allow_empty=",
        '        owner=values["owner"],\n        allow_empty=',
    )
    edit(tree / "lbgen/fleet/written/written.py", '{"allow_empty":', '{"owner": pool.owner, "allow_empty":')
    edit(tree / "fleet.yaml", "by_turns", "round_robin")
    assert "owner: nobody" in lbgen(tree, "show", "fleet.yaml").stdout
    shown = lbgen(tree, "show", "fleet.yaml", "--set", "pools.chat.owner=search")
    assert "owner: search" in shown.stdout
    assert "Who pays." in lbgen(tree, "schema").stdout


def test_a_form_is_a_function_and_an_entry(tree: Path) -> None:
    (tree / "lbgen/manifests/listing.py").write_text(FORM)
    edit(tree / "lbgen/manifests/__init__.py", '"compose":', '"listing": "listing", "compose":')
    edit(tree / "fleet.yaml", "by_turns", "round_robin")
    done = lbgen(tree, "render", "fleet.yaml", "-t", "nginx", "--as", "listing", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "nginx.conf\n" in (tree / "out/nginx/listing.txt").read_text()
