"""When NGINX learns prefixes, and what bounds a server's load."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.render import render

FLEET = 'pools: {chat: {engine: vllm, strategy: prefix, servers: "gpu-[0-3]:8000"%s}}\n'


def rendered(version: str, more: str = "", rest: str = "") -> tuple[list[str], list[str]]:
    """Return the lines of the configuration, and the warnings."""
    source = Source("fleet.yaml", FLEET % more + rest)
    loaded = load([source], environ={}, targets=("nginx",), versions={"nginx": version})
    assert loaded.fleet is not None, loaded.problems
    text = render(loaded.fleet, "nginx")[0].text
    return [line.strip() for line in text.splitlines()], [one.message for one in loaded.problems]


def test_from_1_29_6_on_prefixes_are_learned() -> None:
    lines, _ = rendered("1.30")
    assert "least_conn;" in lines
    assert any(line.startswith("sticky learn create=$lb_prompt") for line in lines)
    assert not any(line.startswith("hash ") for line in lines)


@pytest.mark.parametrize(("version", "rest"), [("1.26", ""), ("1.30", "balancers: 2\n")])
def test_before_and_where_balancers_have_to_agree_they_are_hashed(version: str, rest: str) -> None:
    lines, _ = rendered(version, rest=rest)
    assert not any(line.startswith("sticky") for line in lines)
    assert any(line.startswith("hash $lb_prompt") for line in lines)


@pytest.mark.parametrize(
    ("version", "more", "said"),
    [("1.26", "", True), ("1.26", ", max_in_flight: 8", False), ("1.30", "", False)],
)
def test_a_hash_without_a_bound_is_named(version: str, more: str, said: bool) -> None:
    _, messages = rendered(version, more)
    assert any("bounds no server's load" in message for message in messages) is said


NJS = "targets: {nginx: {modules: [njs]}}\n"


@pytest.mark.parametrize(("version", "counted"), [("1.22", False), ("1.26", True), ("1.30", True)])
def test_with_njs_a_prefix_has_its_share_and_no_more(version: str, counted: bool) -> None:
    lines, messages = rendered(version, rest=NJS)
    assert ("load_module modules/ngx_http_js_module.so;" in lines) is counted
    assert any("$lb_counted_1" in line for line in lines) is counted
    assert any("bounds no server's load" in message for message in messages) is not counted


@pytest.mark.parametrize("part", ["all", "http", "upstreams"])
def test_the_script_comes_with_what_can_use_it(part: str) -> None:
    source = Source("fleet.yaml", FLEET % "" + NJS)
    fleet = load([source], environ={}, targets=("nginx",), versions={"nginx": "1.26"}).fleet
    assert fleet is not None
    files = {file.path: file.text for file in render(fleet, "nginx", part=part)}
    main = next(iter(files.values()))
    assert ("lbgen.js" in files) is ("js_import" in main) is (part != "upstreams")
    assert ("$lb_counted_1" in main) is (part != "upstreams")
