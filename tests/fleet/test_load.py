"""Everything that is wrong with a fleet, at once, at its place, in the order of the files."""

from __future__ import annotations

import ast
import gc
import re
from pathlib import Path

import pytest

from lbgen.codes import CODES
from lbgen.fleet.load import load
from lbgen.fleet.rules import RULES
from lbgen.fleet.text.ignores import known_codes
from lbgen.fleet.text.source import Source

PACKAGE = Path(__file__).parents[2] / "lbgen"
SMALL = "pools: {chat: {servers: [gpu-0:8000]}}\n"
OPEN = "listeners:\n  public:\n    bind: 8080\n    auth: none"


def found(*texts: str, **options) -> list[tuple[str, int]]:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    problems = load(sources, environ={}, **options).problems
    return [(problem.code, problem.location.line) for problem in problems]


def test_small_fleet_loads_with_nothing_but_its_open_door() -> None:
    result = load([Source("small.yaml", SMALL)], environ={})
    assert result.fleet.name == "small"
    assert [problem.code for problem in result.problems] == ["open-listener"]
    assert all(problem.location for problem in result.problems)


def fifty_mistakes() -> str:
    lines = ["name: 1.5", "lisseners: {}", "pools:"]
    for number in range(12):
        lines += [
            f"  pool-{number}:",
            "    models: m",
            "    engin: vllm",
            f"    servers: [a{number}]",
            "    max_in_flight: 010",
            "    warmup: 5x",
        ]
    return "\n".join(lines) + "\n"


def test_fifty_mistakes_are_fifty_problems_in_file_order() -> None:
    text = fifty_mistakes()
    problems = load([Source("f.yaml", text)], environ={}).problems
    places = [(problem.location.line, problem.location.column) for problem in problems]
    assert places == sorted(places)
    assert len(problems) == 50
    wrong = [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if not re.match(r"  pool-|pools:|    models|$", line)
    ]
    assert [line for line, _ in places] == wrong


def test_planted_mistakes_come_in_file_order() -> None:
    text = (Path(__file__).parent / "planted.yaml").read_text()
    problems = load([Source("planted.yaml", text)], environ={}).problems
    places = [problem.location[1:] for problem in problems]
    assert places == sorted(places)
    assert sum(problem.is_error for problem in problems) >= 50


def test_schema_problems_do_not_hide_what_the_rules_find_elsewhere() -> None:
    text = (
        "pools:\n"
        "  a:\n    servers: [x:1]\n    engine: vllm\n    timeouts: {idle: 20s}\n    models: m\n"
        "  b:\n    servers: [y]\n    models: n\n"
    )
    assert ("bad-value", 8) in found(text)
    assert ("short-read-timeout", 5) in found(text)


def test_what_follows_from_an_error_is_not_a_second_one() -> None:
    assert found("pools: {a: {servers: [x]}}\nlisteners: {l: {auth: none, bind: '127.0.0.1:1'}}\n") == [
        ("bad-value", 1)
    ]
    assert found(SMALL + "balancers: 010") == [("leading-zero", 2)]
    assert found(SMALL + "balancers: ${NO}") == [("unset-variable", 2)]


def test_problems_of_overlays_come_in_the_order_of_the_files() -> None:
    base = SMALL + "nonsense: 1\n"
    over = "pools: {chat: {waarmup: 1s}}\n"
    problems = load(
        [Source("z.yaml", base), Source("a.yaml", over)], sets=["pools.chat.max_in_flight=x"], environ={}
    ).problems
    assert [problem.location.file for problem in problems if problem.is_error] == [
        "z.yaml",
        "a.yaml",
        "--set pools.chat.max_in_flight",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "[", "- a", "a: &a [*a]", "pools: 1", "pools: []", "pools: {a: }", "pools: {a: {servers: 1}}",
     "pools: {a: {discover: {}}}", "listeners: 1", "pools: {a: {servers: [x:1], strategy: {}}}",
     "pools: {a: {servers: [x:1]}}\nlisteners: {l: {routes: [1, {pool: b}, {split: {a: x}}]}}",
     "pools: {a: {servers: [x:1]}}\nclients: {c: {key: secret}}\nlisteners: {l: {auth: {clients: [d]}}}",
     "pools: {a: {servers: [x:1]}}\ntargets: {nginx: {version: 1.30}, apache: {}}",
     "pools: {a: {servers: [x:1]}}\ntargets: 5\nmetrics: x\nlogs: []\nbalancers: {peers: 1}"],
)  # fmt: skip
def test_broken_fleets_are_problems_with_places_and_never_exceptions(text) -> None:
    result = load([Source("f.yaml", text)], environ={})
    assert result.fleet is None
    assert result.problems
    assert all(problem.location is not None for problem in result.problems)


def test_collector_runs_again_afterwards() -> None:
    load([Source("f.yaml", SMALL)], environ={})
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{OPEN}\n", [("open-listener", 4)]),
        (f"{OPEN} # lbgen: ignore[open-listener]\n", []),
        (f"{OPEN}  #lbgen:ignore[ open-listener , short-read-timeout ]\n", [("unused-ignore", 4)]),
        (OPEN.replace("    auth", "    # lbgen: ignore[open-listener]\n    # more\n\n    auth"), []),
        (f"# lbgen: ignore[open-listener]\n{OPEN}\n", [("unused-ignore", 1), ("open-listener", 5)]),
        (f"{OPEN} # lbgen: ignore[open-listner]\n", [("open-listener", 4), ("unknown-code", 4)]),
        (f"{OPEN} # lbgen: ignore open-listener\n", [("open-listener", 4), ("unknown-code", 4)]),
        (f"{OPEN} # lbgen: ignore[]\n", [("open-listener", 4), ("unknown-code", 4)]),
    ],
)
def test_ignore_comments(text, expected) -> None:
    lines = [(code, line) for code, line in found(text + "\n" + SMALL)]
    assert sorted(lines) == sorted(expected)


def test_errors_cannot_be_ignored() -> None:
    text = SMALL + "nonsense: 1 # lbgen: ignore[unknown-key]\n"
    assert [code for code, line in found(text) if line == 2] == ["unknown-key", "ignored-error"]


def test_misspelt_code_gets_a_suggestion() -> None:
    text = f"{OPEN} # lbgen: ignore[open-listner]\n{SMALL}"
    (problem,) = [p for p in load([Source("f.yaml", text)], environ={}).problems if p.code == "unknown-code"]
    assert "open-listener" in problem.hint
    assert problem.location.column == text.split("\n")[3].index("open-listner") + 1


def test_nothing_is_called_unused_where_not_everything_was_checked() -> None:
    text = SMALL.replace("\n", " # lbgen: ignore[target-degraded]\n")
    assert "unused-ignore" in [code for code, _ in found(text)]
    assert "unused-ignore" not in [code for code, _ in found(text, targets=["nginx"])]
    assert "unused-ignore" not in [code for code, _ in found(text + "nonsense: 1\n")]


MAKERS = {"Problem", "warning", "_problem", "_fail", "error"}


def codes_in_the_source() -> dict[str, str]:
    """Every code that is written as such in a call that makes a problem, with its file."""
    codes = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0]
            code = first.value if isinstance(first, ast.Constant) else None
            if name in MAKERS and isinstance(code, str) and re.fullmatch(r"[a-z]+(-[a-z]+)+", code):
                codes[code] = str(path.relative_to(PACKAGE))
    return codes


def test_every_code_is_registered_with_its_meaning() -> None:
    codes = codes_in_the_source()
    assert len(codes) > 20
    assert {code: path for code, path in codes.items() if code not in known_codes()} == {}
    assert not set(CODES) & set(RULES)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in known_codes())


@pytest.mark.parametrize(
    ("over", "sets", "code", "place"),
    [
        ("# none\npools: {chat: null}", (), "bad-value", "1.yaml:2:9"),
        ("# none\npools: null", (), "missing-key", "1.yaml:2:1"),
        ("name: x", ["pools.chat=null"], "bad-value", "--set pools.chat:1:1"),
        ("pools:\n  chat:\n    servers: null", (), "missing-key", "1.yaml:3:5"),
    ],
)
def test_what_a_removal_leaves_without_is_wrong_where_the_removal_is_written(over, sets, code, place) -> None:
    sources = [Source("0.yaml", SMALL), Source("1.yaml", over)]
    problems = load(sources, sets=sets, environ={}).problems
    assert [(problem.code, str(problem.location)) for problem in problems if problem.is_error] == [
        (code, place)
    ]


TWO = "pools: {chat: {servers: [a:1]}, other: {servers: [b:1]}}\n"


@pytest.mark.parametrize(
    ("text", "sets", "code"),
    [
        ("pools: &a {chat: *a}", (), "recursive-anchor"),
        ("pools: {chat: {servers: &a [*a]}}", (), "recursive-anchor"),
        ("pools: {chat: &a {servers: *a, engine: vllm}}", (), "recursive-anchor"),
        (SMALL, ["pools.ch.strategy=round_robin"], "missing-key"),
        (TWO + "lisseners: {a: {bind: 80}}", (), "unknown-key"),
        (TWO + "listeners: {a: {bind: 127.0.0.1:80, auth: none, rutes: [{pool: chat}]}}", (), "unknown-key"),
        (SMALL + "foo: !bar x", (), "unknown-key"),
    ],
)
def test_one_mistake_is_one_error(text, sets, code) -> None:
    problems = load([Source("0.yaml", text)], sets=sets, environ={}).problems
    assert [problem.code for problem in problems] == [code]


def test_pools_without_a_route_are_told_beside_mistakes_elsewhere() -> None:
    assert found(TWO + "logs: {form: json}") == [
        ("unrouted-pool", 1),
        ("unrouted-pool", 1),
        ("unknown-key", 2),
    ]


def test_default_listener_is_not_called_open_beside_errors() -> None:
    old = 'targets: {nginx: {version: "1.10"}}'
    assert found(SMALL + old) == [("version-too-old", 2)]
    door = "\nlisteners: {a: {bind: 8080, auth: none}}"
    assert found(SMALL + old + door) == [("version-too-old", 2), ("open-listener", 3)]
