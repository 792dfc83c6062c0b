"""What is rendered has the shape of no known hole of NGINX, whatever version runs it.

CVE-2026-42533 and CVE-2026-93479: a string is measured, then copied; a map that is asked in between may set a
capture that stands before it in the string. CVE-2026-42945 and CVE-2026-9256: captures without names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from tests.targets.nginx.parsed import find, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.targets.nginx.parsed import Directive

ROOT = Path(__file__).parents[3]
FLEETS = [
    *sorted(ROOT.glob("tests/golden/*/fleet.yaml")),
    *sorted(ROOT.glob("tests/fleets/*.yaml")),
    *sorted(ROOT.glob("examples/*.yaml")),
]
VERSIONS = ("1.22", "1.30.6")


@pytest.fixture(params=FLEETS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def configurations(request: pytest.FixtureRequest) -> list[list[Directive]]:
    """What a fleet renders to, all files of each version as one."""
    source = Source(str(request.param), request.param.read_text())
    found = []
    for version in VERSIONS:
        loaded = load([source], environ={}, targets=("nginx",), versions={"nginx": version})
        assert loaded.fleet is not None
        if any(problem.is_error for problem in loaded.problems):
            continue
        files = render(loaded.fleet, "nginx", secrets=StandInSecrets())
        found.append([line for file in files if file.path.endswith(".conf") for line in _parsed(file)])
    return found


def _parsed(file) -> list[Directive]:
    return [] if file.aside else parse(file.text)


def words(directives: list[Directive]) -> Iterator[str]:
    for directive in directives:
        yield from directive["args"]
        if directive["directive"] != "map":
            yield from words(directive.get("block", []))


def entries(block: Directive) -> list[Directive]:
    """Return what a map says, without `volatile`."""
    return [entry for entry in block["block"] if entry["args"]]


def test_no_capture_is_used_by_its_number(configurations: list[list[Directive]]) -> None:
    for directives in configurations:
        assert not [word for word in words(directives) if re.search(r"\$\d|\$\{\d", word)]
        results = [entry["args"][-1] for each in find(directives, "map") for entry in entries(each)]
        assert not [word for word in results if re.search(r"\$\d", word)]


def test_every_capture_has_a_name(configurations: list[list[Directive]]) -> None:
    for directives in configurations:
        patterns = [entry["directive"] for each in find(directives, "map") for entry in entries(each)]
        patterns = [pattern for pattern in patterns if pattern.startswith("~")]
        patterns += [word for each in find(directives, "if") for word in each["args"] if "^" in word]
        assert patterns
        # Outside of brackets, and not escaped, an opening parenthesis has to go on with `?` or `*`.
        single = [pattern.replace("\\\\", "\\").replace("(?(DEFINE)", "(?:") for pattern in patterns]
        single = [re.sub(r"\(\?\(<\w+>\)", "(?:", pattern) for pattern in single]  # whether one is set
        bare = [re.sub(r"\\.|\[\]?(?:\\.|[^]\\])*\]", "", pattern) for pattern in single]
        assert not [pattern for pattern in bare if re.search(r"\((?![?*])", pattern)]


def test_no_string_has_a_capture_beside_a_map_that_sets_it(configurations: list[list[Directive]]) -> None:
    for directives in configurations:
        assert not list(affected(directives))


def affected(directives: list[Directive]) -> Iterator[tuple[str, str]]:
    """Yield each string with a capture that another variable in it may set."""
    asked: dict[str, set[str]] = {}
    sets: dict[str, set[str]] = {}
    for each in find(directives, "map"):
        source, name = each["args"][0], each["args"][1].removeprefix("$")
        text = "".join(entry["directive"] for entry in each["block"])
        sets[name] = set(re.findall(r"\(\?P?<([a-z_0-9]+)>", text))
        asked[name] = set(names(source)).union(*(names(entry["args"][-1]) for entry in entries(each)))
    strings = [*words(directives)]
    strings += [entry["args"][-1] for each in find(directives, "map") for entry in entries(each)]
    captures = set().union(*sets.values())
    for string in strings:
        used = names(string)
        for capture in captures & set(used):
            others = [name for name in used if name != capture]
            if any(capture in _reached(name, asked, sets) for name in others):
                yield string, capture


def names(text: str) -> list[str]:
    return re.findall(r"\$\{?([a-z_0-9]+)", text)


def _reached(name: str, asked: dict[str, set[str]], sets: dict[str, set[str]]) -> set[str]:
    """Return every capture that asking for a variable may set."""
    found, todo = set(), [name]
    seen = set()
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            found |= sets.get(each, set())
            todo += asked.get(each, ())
    return found


def test_the_shape_is_recognised() -> None:
    """Else nothing would be proved."""
    text = 'http { map $a $m { "~(?<c>x)" 1; } map "$c$m" $n { default 0; } }'
    assert list(affected(parse(text))) == [("$c$m", "c")]
