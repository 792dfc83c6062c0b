"""Reads fleet files in tests: the field table and the builder, without rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fleet.build import build
from lbgen.fleet.schema import FLEET
from lbgen.fleet.text.source import Document, Source, read

if TYPE_CHECKING:
    from lbgen.fields import Kind
    from lbgen.model import Fleet
    from lbgen.problems import Problem

SMALL = "pools: {chat: {servers: ['gpu-0:8000']}}\n"


def values_of(kind: Kind, text: str) -> tuple[Any, list[Problem]]:
    """What a kind makes of one value, as YAML."""
    root, problems = read(Source("f.yaml", f"v: {text}\n"))
    assert root is not None, problems
    return kind.read(root.value[0][1], ("v",), problems), problems


def loaded(text: str, name: str = "f.yaml", **options: Any) -> tuple[Fleet, list[Problem]]:
    """The fleet, and all problems, placed and in the order of the file."""
    root, problems = read(Source(name, text))
    assert root is not None, problems
    document = Document(root, (name,))
    built = build(FLEET.read(root, (), problems), document, **options)
    placed = [
        problem._replace(location=document.locate(problem.path, problem.on_key)) for problem in built.problems
    ]
    return built.fleet, sorted(problems + placed, key=lambda problem: problem.location)


def fleet_of(text: str, **options: Any) -> Fleet:
    """The fleet of a file without mistakes."""
    fleet, problems = loaded(text, **options)
    assert problems == []
    return fleet


def found(text: str) -> list[tuple[str, int, int]]:
    """Code, line and column of each problem."""
    return [(problem.code, *problem.location[1:]) for problem in loaded(text)[1]]
