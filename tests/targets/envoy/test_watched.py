"""Servers taken out in the watched file of their pool."""

from __future__ import annotations

import json

import pytest
import yaml

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.targets.envoy.reading.read import read
from lbgen.targets.envoy.watched import WATCHED

SERVERS = """
pools:
  chat:
    health: {port: 9000}
    servers: ["10.0.0.1:80", {address: "10.0.0.2:80", name: "8001", weight: 3},
      {address: "[fd00::1]:80", name: six, backup: true}, {address: "10.0.0.9:80", name: fleet, state: drain}]
"""


@pytest.fixture(params=["rendered", "written anew"])
def text(request: pytest.FixtureRequest) -> str:
    fleet = load([Source("f", SERVERS)], environ={}, targets=("envoy",)).fleet
    assert fleet is not None
    (found,) = [one.text for one in render(fleet, "envoy") if one.path == "endpoints/chat.yaml"]
    # By hand, or by a program: long-winded, and with the keys in another order.
    return found if request.param == "rendered" else yaml.safe_dump(yaml.safe_load(found))


def states(text: str) -> dict[str, str]:
    return {name: entry.state for name, entry in read(text).pools["chat"].servers.items()}


def test_servers_go_out_and_come_back(text: str) -> None:
    before = states(text)
    for name in before.keys() - {"fleet"}:
        out = WATCHED.hold(text, {name})
        assert states(out) == before | {name: "drain"}
        assert WATCHED.holds(out) == {name}
        assert WATCHED.hold(out, {name}) == out
        assert WATCHED.hold(out, ()) == text
    both = WATCHED.hold(text, {"10.0.0.1", "six"})
    assert WATCHED.hold(both, {"six"}) == WATCHED.hold(text, {"six"})


def test_what_the_fleet_takes_out_is_not_ours(text: str) -> None:
    assert WATCHED.holds(text) == frozenset()
    assert WATCHED.hold(text, {"fleet"}) == text


def test_unknown_servers_and_other_texts() -> None:
    with pytest.raises(ValueError, match="has no server gpu"):
        WATCHED.hold("resources: []", {"gpu"})
    with pytest.raises(ValueError, match="is no YAML"):
        WATCHED.hold("{", {"gpu"})
    for odd in ("", "{", "[]", "resources: 5", "resources: [{endpoints: 5}]"):
        assert WATCHED.holds(odd) == frozenset()


@pytest.mark.parametrize("page", ["", "[]", "{}", '{"version": 5}', "5"], ids=repr)
def test_pages_that_are_none_of_envoys(page: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting value|is no mapping|names no version"):
        WATCHED.process((page, page, page))


def test_old_servers_that_are_in_use_are_joined_to_new_ones(text: str) -> None:
    other = text.replace("10.0.0.", "10.0.1.").replace("fd00::1", "fd00::2").replace("six", "seven")
    other = other.replace("8001", "8002")
    joined = WATCHED.joined(WATCHED.hold(text, {"10.0.0.1"}), other)
    assert joined.partition("\n")[0] == other.partition("\n")[0], "the header, by which lbgen knows its files"
    before, after = (read(one).pools["chat"].servers for one in (text, joined))
    assert after == {"8001": before["8001"], "six": before["six"], **read(other).pools["chat"].servers}
    alone = yaml.safe_load(other)
    del alone["resources"][0]["endpoints"][1]
    assert "six" in states(WATCHED.joined(text, yaml.safe_dump(alone)))


@pytest.mark.parametrize(
    ("more", "alike"),
    [({"max_in_flight": 3}, True), ({"tls": {"verify": False}}, False), ({"health": {"path": "/v2"}}, False)],
)
def test_how_servers_are_reached_is_told_apart(more: dict[str, object], alike: bool) -> None:
    def clusters(**values: object) -> str:
        source = json.dumps({"pools": {"chat": {"servers": ["10.0.0.1:80"], **values}}})
        fleet = load([Source("f", source)], environ={}, targets=("envoy",)).fleet
        assert fleet is not None
        (found,) = [one.text for one in render(fleet, "envoy") if one.path == WATCHED.pools_file]
        return found

    before, after = clusters(), clusters(**more)
    assert (WATCHED.reached(before, "chat") == WATCHED.reached(after, "chat")) is alike
    assert WATCHED.reached(before, "other") == []
