"""A target is a seam: what is outside of its package asks it, and names none."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(lbgen.__file__).parent
OTHERS_FILES = ("readers/", "audit/", "imports/", "cli/describe/audit.py")
"""What reads files that others wrote for NGINX and HAProxy: languages of their own, and no targets."""


REGISTRY = "targets/registry.py"
"""Which lists them all, and says which are the usual ones."""


def outside() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules that belong to no target."""
    own = tuple(f"targets/{name}/" for name in TARGETS)
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith((*own, *OTHERS_FILES)):
            yield name, ast.parse(path.read_text())


def test_nothing_outside_of_its_package_names_a_target() -> None:
    named = [
        f"{name}:{node.lineno}: {node.value}"
        for name, module in outside()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and node.value in TARGETS and name != REGISTRY
    ]
    assert named == []


@pytest.mark.parametrize("target", TARGETS)
def test_rendering_for_one_target_imports_no_words_of_another(target: str) -> None:
    code = f"""
import sys
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
fleet = load([Source("f.yaml", "pools: {{chat: {{servers: ['gpu-0:8000']}}}}")], targets=["{target}"]).fleet
render(fleet, "{target}")
print(*sys.modules, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.split(".")[2] for name in done.stdout.split() if name.endswith(".outputs")}
    assert imported == {target}


def test_nothing_but_the_registry_imports_a_targets_modules() -> None:
    private = tuple(f"lbgen.targets.{name}" for name in TARGETS)
    imports = [
        f"{name}:{node.lineno}: {node.module}"
        for name, module in outside()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(private)
    ]
    assert {line.partition(":")[0] for line in imports} == {REGISTRY}, imports
