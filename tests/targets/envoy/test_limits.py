"""What Envoy is said not to do for a fleet, and where it does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.targets.envoy.values import POOLS, VERSION
from tests.targets.loaded import refused

PAIR = dict.fromkeys(("a", "b", "c"), POOLS["chat"])


def said(word: str, fleet: dict[str, Any]) -> int:
    return len([one for one in refused(json.dumps(fleet), "envoy", VERSION) if word in one.message])


@pytest.mark.parametrize(
    ("pools", "route", "clients", "number"),
    [
        (["a"], {"pool": "a", "when_down": "b"}, "all", 1),
        (["b"], {"pool": "a", "when_down": "b"}, "all", 1),
        (["a", "b"], {"pool": "a", "when_down": "b"}, "all", 0),
        (["c"], {"pool": "a", "when_down": "b"}, "all", 0),
        (["a"], {"pool": "a"}, "all", 0),
        (["a"], {"pool": "a", "when_down": "b"}, ["other"], 0),
        (["a", "b"], {"split": {"a": 1, "c": 1}, "when_down": "b"}, "all", 1),
        (["a"], {"split": {"a": 1, "c": 1}}, "all", 0),
        (["a"], {"split": {"a": 1, "b": 1}, "when_down": "b"}, "all", 1),
    ],
)
def test_a_client_that_may_use_one_of_two_pools_is_told_of(
    pools: list[str], route: dict[str, Any], clients: str | list[str], number: int
) -> None:
    fleet = {
        "pools": PAIR,
        "clients": {"some": {"key": "env:A", "pools": pools}, "other": {"key": "env:B"}},
        "listeners": {"l": {"bind": "8080", "auth": {"clients": clients}, "routes": [route, {"pool": "c"}]}},
    }
    assert said("'pools'", fleet) == number


@pytest.mark.parametrize(
    ("match", "number"), [({"model": "m"}, 0), ({"form": {"kind": "x"}}, 1), ({"prompt_over": 9}, 0), ({}, 0)]
)
def test_a_long_form_is_told_of_where_forms_are_read(match: dict[str, Any], number: int) -> None:
    routes = [{**match, "path": "/v1", "pool": "chat"}, {"pool": "chat"}]
    fleet = {"pools": POOLS, "listeners": {"l": {"bind": "8080", "auth": "none", "routes": routes}}}
    assert said("'inspect.body'", fleet) == number


@pytest.mark.parametrize(
    ("strategy", "weights", "number"),
    [
        ("least_conn", [4, 1], 1),
        ("random_two", [1, 4], 1),
        ("least_conn", [2, 2], 0),
        ("least_conn", [1, 0], 0),
        ("round_robin", [4, 1], 0),
        ({"name": "session", "insert": "c"}, [4, 1], 1),
        ({"name": "session", "header": "X-S"}, [4, 1], 0),
    ],
)
def test_unlike_weights_are_told_of_where_requests_in_flight_are_compared(
    strategy: str | dict[str, str], weights: list[int], number: int
) -> None:
    servers = [{"address": f"10.0.0.{at}:80", "weight": weight} for at, weight in enumerate(weights, 1)]
    assert said("'weight'", {"pools": {"chat": {"strategy": strategy, "servers": servers}}}) == number
