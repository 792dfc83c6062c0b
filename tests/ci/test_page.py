"""The page about pipelines: its commands run, and what it quotes of the examples stands there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.docs.blocks import blocks
from tests.docs.shell import complaints, missing, run_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "ci.md"
QUOTED = [block for block in blocks(PAGE) if block.title.startswith("examples/")]


def test_the_commands_do_what_the_page_says(tmp_path):
    if lacking := missing():
        pytest.skip(f"{', '.join(lacking)}: not found, and the pages run them")
    own = [block for block in blocks(PAGE) if block not in QUOTED]
    folder = tmp_path / "page"
    folder.mkdir()
    assert complaints(run_page(own, folder)) == []
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is missing: apt-get install kubernetes-client")
    version = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, check=False
    )
    if int(json.loads(version.stdout)["clientVersion"]["minor"].rstrip("+")) < 21:
        return  # its kustomize knows no patches with a target, and the page says so
    built = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    kinds = {one["kind"]: one for one in yaml.safe_load_all(built.stdout)}
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    assert pod["volumes"][-1] == {"name": "tls", "secret": {"secretName": "llm-tls"}}
    assert pod["containers"][0]["volumeMounts"][-1]["mountPath"] == "/etc/ssl/llm"


@pytest.mark.parametrize("block", QUOTED, ids=lambda block: f"{block.title}:{block.line}")
def test_a_quotation_stands_in_its_example(block):
    example = (ROOT / block.title).read_text(encoding="utf-8")
    assert dedent(block.text).strip() in dedent(example) or block.text.strip("\n") in example


def test_every_example_is_named():
    text = PAGE.read_text(encoding="utf-8")
    for path in ("ci/github.yml", "ci/gitlab.yml", "ansible/apply.yml", "ansible/copy.yml",
                 "terraform/main.tf", "container/Containerfile"):  # fmt: skip
        assert (ROOT / "examples" / path).is_file()
        assert f"examples/{path}" in text


def test_the_examples_are_yaml():
    for path in [*(ROOT / "examples").rglob("*.y*ml"), ROOT / "action.yml", ROOT / ".pre-commit-hooks.yaml"]:
        assert list(yaml.safe_load_all(path.read_text(encoding="utf-8"))), path
