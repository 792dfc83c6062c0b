"""What other tools read follows their schemas, as check-jsonschema brings them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLEET = """
pools: {chat: {servers: [gpu-0:8000]}}
listeners: {public: {bind: "127.0.0.1:443", tls: {bundle: /etc/ssl/llm.pem}, redirect_from: 80}}
targets: {nginx: {version: "1.26"}, haproxy: {version: "3.0", runtime_socket: /run/haproxy/admin.sock}}
"""


def follows(schema: str, *files: Path) -> str:
    """What is wrong with the files; empty when nothing is."""
    program = Path(sys.executable).with_name("check-jsonschema")
    assert program.exists(), "check-jsonschema is missing: pip install -e '.[dev]'"
    command = [program, "--builtin-schema", f"vendor.{schema}", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "name"),
    [("github-actions", "action.yml"), ("github-workflows", "examples/ci/github.yml"),
     ("gitlab-ci", "examples/ci/gitlab.yml")],
)  # fmt: skip
def test_an_example_follows_its_schema(schema, name, tmp_path):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert follows(schema, ROOT / name) == ""
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        text.replace("runs:", "rans:").replace("steps:", "stops:").replace("script:", "scrapt:")
    )
    assert follows(schema, broken)


def test_compose_files_follow_the_specification(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FLEET)
    words = ["render", "fleet.yaml", "--as", "compose", "--network", "llm", "-o", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    files = sorted((tmp_path / "out").rglob("compose.yaml"))
    assert len(files) == 2
    assert follows("compose-spec", *files) == ""
