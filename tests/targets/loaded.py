"""What the text of a fleet file becomes, through the loader: files by their lines, and what is said of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import StandInSecrets

if TYPE_CHECKING:
    from lbgen.fleet.load import Loaded

CHAT = "pools: {chat: {engine: vllm, servers: ['gpu-0:8000', 'gpu-1:8000']}}\n"
MAIN = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}


def loaded(text: str, target: str, version: str) -> Loaded:
    """Read a fleet for one version of one target."""
    return load([Source("fleet.yaml", text)], environ={}, targets=(target,), versions={target: version})


def files(text: str, target: str, version: str) -> dict[str, str]:
    """Return path -> text of what a fleet without errors renders to."""
    found = loaded(text, target, version)
    errors = [str(problem) for problem in found.problems if problem.is_error]
    assert found.fleet is not None, errors
    assert not errors, errors
    return {file.path: file.text for file in render(found.fleet, target, secrets=StandInSecrets())}


def sections(text: str, version: str = "2.6") -> dict[str, list[str]]:
    """Return the sections of a HAProxy file: head -> its lines."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in files(text, "haproxy", version)["haproxy.cfg"].splitlines():
        if line and not line.startswith((" ", "#")):
            current = found.setdefault(line.partition(" from ")[0].strip(), [])
        elif line.strip():
            current.append(line.strip())
    return found


def lines(text: str, version: str = "1.22") -> list[str]:
    """Return the lines of NGINX's main file, without what only lays them out; a map's entries one by one."""
    found = files(text, "nginx", version)["nginx.conf"]
    found = re.sub(r"^( *map .*?) \{ (.*) \}$", _unfolded, found, flags=re.MULTILINE)
    return [line.strip() for line in found.splitlines() if line.strip()]


def _unfolded(line: re.Match[str]) -> str:
    return "{\n".join((f"{line[1]} ", line[2].replace("; ", ";\n"))) + "\n}"


class Verdict(NamedTuple):
    """What a target says of a key."""

    code: str
    line: int
    message: str


def refused(text: str, target: str, version: str) -> list[Verdict]:
    """Return all that a target says of a fleet."""
    return [
        Verdict(problem.code, problem.location.line if problem.location else 0, problem.message)
        for problem in loaded(text, target, version).problems
        if problem.code.startswith("target-")
    ]
