"""The example for Terraform, and the program protocol of its external data source.

Terraform itself is not run: the program is started as the provider starts it, with the words of main.tf, see
https://registry.terraform.io/providers/hashicorp/external/latest/docs/data-sources/external.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hcl2
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "terraform"
KEYED = """
pools: {chat: {servers: [gpu-0:8000]}}
listeners: {public: {bind: "127.0.0.1:8080", auth: {clients: all}}}
clients: {team: {key: "env:TEAM_KEY"}}
"""


def bare(value: Any) -> Any:
    """The parsed configuration without the quotes that the parser leaves around texts."""
    if isinstance(value, dict):
        return {bare(key): bare(one) for key, one in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [bare(one) for one in value]
    return value.strip('"') if isinstance(value, str) else value


@pytest.fixture(scope="module")
def main() -> dict[str, Any]:
    with (EXAMPLE / "main.tf").open(encoding="utf-8") as stream:
        return bare(hcl2.load(stream))


@pytest.fixture(scope="module")
def source(main: dict[str, Any]) -> dict[str, Any]:
    (data,) = main["data"]
    return data["external"]["lbgen"]


def provider(program: list[str], query: dict[str, str], folder: Path, **environ: str):
    """What the provider does: no shell, the query on standard input, two streams back."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        program, input=json.dumps(query), cwd=folder, env={**os.environ, "PATH": paths, **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def program_of(source: dict[str, Any]) -> list[str]:
    return [word.replace("${path.module}", str(EXAMPLE)) for word in source["program"]]


def test_the_example_gets_the_servers_that_terraform_made(source, tmp_path):
    assert source["query"] == {
        "pools.chat.servers": '${jsonencode([for server in var.servers : "${server}:8000"])}'
    }
    query = {"pools.chat.servers": json.dumps(["10.0.0.11:8000", "10.0.0.12:8000"])}
    done = provider(program_of(source), query, tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert all(isinstance(value, str) for value in result.values())
    assert "server 10.0.0.12 10.0.0.12:8000" in result["haproxy.cfg"]
    assert "set-by-terraform" not in result["haproxy.cfg"]
    assert list(tmp_path.iterdir()) == []  # a data source has no effects


def test_it_is_what_render_writes(source, tmp_path):
    done = provider(program_of(source), {}, tmp_path)
    plain = [word for word in program_of(source) if word not in {"--as", "terraform"}]
    assert json.loads(done.stdout)["haproxy.cfg"] == provider(plain, {}, tmp_path).stdout


def test_the_example_writes_each_file_once(main):
    resources = {kind: body for one in main["resource"] for kind, body in one.items()}
    choices = {kind: next(iter(body.values()))["for_each"] for kind, body in resources.items()}
    assert '!startswith(path, "secrets/")' in choices["local_file"]
    assert choices["local_file"].replace("!", "") == choices["local_sensitive_file"]
    assert resources["local_sensitive_file"]["secret"]["file_permission"] == "0600"


def test_keys_are_below_secrets(tmp_path):
    (tmp_path / "fleet.yaml").write_text(KEYED)
    program = ["lbgen", "render", "fleet.yaml", "-t", "nginx", "--as", "terraform"]
    done = provider(program, {}, tmp_path, TEAM_KEY="sk-in-terraform")
    holding = [path for path, text in json.loads(done.stdout).items() if "sk-in-terraform" in text]
    assert holding == ["secrets/lbgen.conf"]


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"pools.chat.servers": "[]"}, 1, "has no servers"),
        ({"pools.chat.sorvers": "a:1"}, 1, "did you mean"),
        ({"pools.chat.servers": "[unclosed"}, 1, "set"),
        ({"": "x"}, 1, "set"),
        (
            {"pools.chat.strategy=round_robin #": "x"},
            2,
            "'pools.chat.strategy=round_robin #' is not the path",
        ),
    ],
)
def test_what_is_wrong_is_said_on_standard_error(query, code, words, source, tmp_path):
    done = provider(program_of(source), query, tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": 1}', '"a"'])
def test_a_query_is_an_object_of_strings(text, lbgen, smallest):
    ended = lbgen("render", smallest, "-t", "nginx", "--as", "terraform", stdin=text)
    assert (ended.code, ended.out) == (2, "")
    assert "query" in ended.err


def test_it_prints_and_reads_the_query_alone(lbgen, smallest):
    for words in (["-o", "out"], ["--check", "-o", "out"], ["--part", "http"], ["--image", "nginx=x"]):
        assert lbgen("render", smallest, "-t", "nginx", "--as", "terraform", *words).code == 2
    assert lbgen("render", "-", "-t", "nginx", "--as", "terraform", stdin="{}").code == 2
    assert "one target" in lbgen("render", smallest, "--as", "terraform", stdin="{}").err
