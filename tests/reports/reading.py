"""How the tests of reports read a fleet: a pool's or a listener's keys, and what is said about them."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Fleet, Pool
    from lbgen.problems import Problem

SERVERS = "servers: [gpu-0:8000, gpu-1:8000]"
TARGET_CODES = ("target-degraded", "target-refused", "without-unused")
LOCAL = "bind: 127.0.0.1:8080"


def fleet_text(
    pool: str = "", listener: str = "", target: str = "haproxy: {}", servers: str = SERVERS
) -> str:
    """A fleet of one pool behind a listener on loopback, with further keys for either."""
    parts = ["pools:\n  chat:\n", _block(servers, pool), "listeners:\n  local:\n", _block(LOCAL, listener)]
    return "".join([*parts, f"targets:\n  {target}\n"])


def _block(*texts: str) -> str:
    return "".join(indent(dedent(text).strip("\n"), "    ") + "\n" for text in texts if text)


def problems(text: str, environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    """Return what is wrong with a fleet file, apart from what a target makes of it."""
    found = load([Source("fleet.yaml", text)], environ=environ or {}).problems
    return tuple(problem for problem in found if problem.code not in TARGET_CODES)


def verdicts(text: str) -> list[Problem]:
    """Return what the targets cannot do."""
    found = load([Source("fleet.yaml", text)], environ={}).problems
    return [problem for problem in found if problem.code in TARGET_CODES]


def codes(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    return [problem.code for problem in problems(text, environ)]


def errors(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of the errors, and assert that each stands somewhere."""
    found = [problem for problem in problems(text, environ) if problem.is_error]
    assert all(problem.location for problem in found)
    return [text.splitlines()[problem.location.line - 1].strip() for problem in found if problem.location]


def read(text: str, environ: Mapping[str, str] | None = None) -> Fleet:
    loaded = load([Source("fleet.yaml", text)], environ=environ or {})
    assert loaded.fleet is not None, loaded.problems
    return loaded.fleet


def chat(text: str, environ: Mapping[str, str] | None = None) -> Pool:
    return read(text, environ).pool("chat")
