"""When NGINX learns prefixes, and what bounds a server's load."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render

FLEET = 'pools: {chat: {engine: vllm, strategy: prefix, servers: "gpu-[0-3]:8000"%s}}\n'


def rendered(version: str, more: str = "", rest: str = "") -> tuple[list[str], list[str]]:
    """Return the lines of the configuration, and the warnings."""
    source = Source("fleet.yaml", FLEET % more + rest)
    loaded = load([source], environ={}, targets=("nginx",), versions={"nginx": version})
    assert loaded.fleet is not None, loaded.problems
    text = render(loaded.fleet, "nginx")[0].text
    return [line.strip() for line in text.splitlines()], [one.message for one in loaded.problems]


HOME = "$lb_home_of_chat"


def test_from_1_29_6_on_homes_are_learned() -> None:
    lines, _ = rendered("1.30")
    assert "least_conn;" in lines
    assert f"sticky learn create={HOME} lookup={HOME} zone=chat-prefix:16m timeout=30m header;" in lines
    assert not any(line.startswith("hash ") for line in lines)


@pytest.mark.parametrize(("version", "rest"), [("1.26", ""), ("1.30", "balancers: 2\n")])
def test_before_and_where_balancers_have_to_agree_they_are_hashed(version: str, rest: str) -> None:
    lines, _ = rendered(version, rest=rest)
    assert not any(line.startswith("sticky") for line in lines)
    assert f"hash {HOME} consistent;" in lines


def test_a_header_names_a_conversation_before_the_body_does() -> None:
    lines, _ = rendered("1.22")
    chain = [line for line in lines if line.startswith("map $http_") and HOME in line]
    names = ("x_session_id", "session_id", "x_session_affinity", "x_claude_code_session_id")
    assert {line.split()[1] for line in chain} == {f"$http_{name}" for name in names}
    assert any(line.startswith(f"map $http_x_session_id {HOME}_named {{") for line in chain)


@pytest.mark.parametrize(
    ("version", "more", "said"),
    [("1.26", "", True), ("1.26", ", max_in_flight: 8", False), ("1.30", "", False)],
)
def test_a_hash_without_a_bound_is_named(version: str, more: str, said: bool) -> None:
    _, messages = rendered(version, more)
    assert any("does not limit a server's load" in message for message in messages) is said


NJS = "targets: {nginx: {modules: [njs]}}\n"


@pytest.mark.parametrize(
    ("version", "bounded", "line"),
    [
        ("1.22", False, f"hash {HOME} consistent;"),
        ("1.26", True, f"hash {HOME} consistent;"),
        ("1.30", True, f"sticky route {HOME};"),
    ],
)
def test_with_njs_a_script_knows_the_homes(version: str, bounded: bool, line: str) -> None:
    lines, messages = rendered(version, rest=NJS)
    assert "load_module modules/ngx_http_js_module.so;" in lines
    assert line in lines
    assert f"js_set {HOME} lbgen.pool_1;" in lines
    assert any(line.startswith("js_shared_dict_zone ") for line in lines) is bounded
    assert any("does not limit a server's load" in message for message in messages) is not bounded
    assert any(line.endswith(" route=gpu-0;") for line in lines) is (version == "1.30")


def test_balancers_that_have_to_agree_hash_with_njs_too() -> None:
    lines, _ = rendered("1.30", rest=f"{NJS}balancers: 2\n")
    assert f"hash {HOME} consistent;" in lines
    assert not any(" route=" in line or "js_shared_dict_zone" in line for line in lines)


def test_bounds_that_nothing_counts_are_named() -> None:
    pool = "engine: vllm, strategy: {name: prefix, slack: 2}, servers: 'gpu-[0-3]:80'"
    for rest, said in (("", True), (NJS, False)):
        source = Source("fleet.yaml", f"pools: {{chat: {{{pool}}}}}\n{rest}")
        problems = load([source], environ={}, targets=("nginx",), versions={"nginx": "1.30"}).problems
        assert any("'strategy.slack' has no effect" in one.message for one in problems) is said


@pytest.mark.parametrize("part", ["all", "http", "upstreams"])
def test_the_script_comes_with_what_can_use_it(part: str) -> None:
    source = Source("fleet.yaml", FLEET % "" + NJS)
    fleet = load([source], environ={}, targets=("nginx",), versions={"nginx": "1.26"}).fleet
    assert fleet is not None
    files = {file.path: file.text for file in render(fleet, "nginx", part=part)}
    main = next(iter(files.values()))
    assert ("lbgen.js" in files) is ("js_import" in main) is (part != "upstreams")
    assert ("js_set " in main) is (part != "upstreams")


@pytest.mark.parametrize(("rest", "told"), [("", False), (NJS, True)])
def test_what_the_script_decides_is_told(rest: str, told: bool) -> None:
    listener = "listeners: {a: {bind: '127.0.0.1:80', explain: true}}\n"
    lines, messages = rendered("1.30", rest=f"{listener}{rest}")
    assert any("add_header X-LB-Decision $lb_decision" in line for line in lines) is told
    assert any('"decision":"$lb_decision"' in line for line in lines) is told
    assert any("'explain' has no effect" in message for message in messages) is not told
