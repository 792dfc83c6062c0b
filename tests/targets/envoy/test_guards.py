"""Who is let in, and how often: what keys of a listener become in Envoy's files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.targets.envoy.values import listener, pool, values

KEYS = {"a": {"key": "env:A"}, "b": {"key": "env:B"}}


def networks(*found: tuple[str, int]) -> dict[str, Any]:
    one = [{"remote_ip": {"address_prefix": address, "prefix_len": bits}} for address, bits in found]
    return {"or_ids": {"ids": one}}


TEN, ONE_V6, ONE_V4 = ("10.0.0.0", 8), ("fd00::1", 128), ("10.1.1.1", 32)


@pytest.mark.parametrize(
    ("keys", "principals"),
    [
        ({"allow": ["10.0.0.0/8", "fd00::1"]}, [networks(TEN, ONE_V6)]),
        ({"deny": ["10.1.1.1"]}, [{"and_ids": {"ids": [{"any": True}, {"not_id": networks(ONE_V4)}]}}]),
        (
            {"allow": ["10.0.0.0/8"], "deny": ["10.1.1.1"]},
            [{"and_ids": {"ids": [networks(TEN), {"not_id": networks(ONE_V4)}]}}],
        ),
        ({}, None),
    ],
)
def test_addresses_that_may_call(keys: dict[str, Any], principals: list[Any] | None) -> None:
    rules = values(listener(**keys), "rules")
    assert [one["action"] for one in rules] == ["ALLOW"] * (principals is not None)
    assert values(listener(**keys), "principals") == ([principals] if principals else [])
    assert values(listener(**keys), "permissions") == ([[{"any": True}]] if principals else [])


def test_an_address_behind_proxies_that_cannot_be_read_is_denied() -> None:
    ((principal,),) = values(listener(deny=["10.1.1.1"], trusted_proxies=["10.0.0.0/8"]), "principals")
    assert principal["and_ids"]["ids"][1] == {"not_id": networks(ONE_V4, ("0.0.0.0", 32))}


def test_a_comma_in_a_value_of_one_listener_lets_no_header_come_twice_at_another() -> None:
    def route(value: str) -> list[dict[str, Any]]:
        return [{"header": {"X-Tier": value}, "pool": "chat"}]

    both = {
        name: {"bind": "8080", "hosts": [f"{name}.org"], "routes": route(value)}
        for name, value in (("a", "x,y"), ("b", "batch"))
    }
    notes = [one for one in values({"listeners": both}, "append") if one["header"]["key"] == "x-lb-odd"]
    assert ["x-tier" in one["header"]["value"] for one in notes] == [True]


def test_what_operators_look_at_stays_open_when_clients_have_all_connections() -> None:
    fleet = {**listener(), "metrics": {"bind": "127.0.0.1:9100"}}
    assert values(fleet, "ignore_global_conn_limit") == [True, True]


def test_addresses_that_need_no_key_are_noted_and_refuse_nobody() -> None:
    fleet = {"clients": KEYS, **listener(auth={"clients": "all", "except": ["10.0.0.0/8"]})}
    assert values(fleet, "rules") == []
    (rules,) = values(fleet, "shadow_rules")
    assert rules["action"] == "ALLOW"
    assert rules["policies"]["known"]["principals"] == [networks(TEN)]
    assert [one["except"] for one in values(fleet, "filter_context") if "required" in one] == [True]


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"clients": "all"}, {"header": "authorization", "required": True, "upstream": "strip"}),
        (
            {"clients": ["b"], "header": "X-Key", "upstream": "pass"},
            {"header": "x-key", "required": True, "clients": ",b,", "upstream": "pass"},
        ),
        (
            {"clients": "all", "upstream": {"set": "env:ENGINE"}},
            {"header": "authorization", "required": True, "upstream": "set", "value": "value-1"},
        ),
    ],
)
def test_what_the_script_of_keys_is_told(auth: dict[str, Any], said: dict[str, Any]) -> None:
    fleet = {"clients": KEYS, **listener(auth=auth)}
    assert [one for one in values(fleet, "filter_context") if "required" in one] == [said]


def test_each_value_that_servers_see_has_a_name_of_its_own() -> None:
    doors = {
        f"l{number}": {"bind": str(8080 + number), "auth": {"clients": "all", "upstream": {"set": secret}}}
        for number, secret in enumerate(["env:ONE", "env:TWO", "env:ONE"])
    }
    said = values({"clients": KEYS, "listeners": doors}, "filter_context")
    assert [one["value"] for one in said if "required" in one] == ["value-1", "value-2", "value-1"]


# limits


UNBOUNDED = {"max_tokens": 1 << 31, "tokens_per_fill": 1 << 31, "fill_interval": "1s"}


def bucket(most: int, tokens: int, interval: str) -> dict[str, Any]:
    return {"max_tokens": most, "tokens_per_fill": tokens, "fill_interval": interval}


@pytest.mark.parametrize(
    ("limit", "entries", "counted"),
    [
        ({"rate": "600/m", "burst": 50, "per": "ip"}, [{"key": "remote_address"}], bucket(51, 1, "0.1s")),
        ({"rate": "1/m", "per": "client"}, [{"key": "client"}], bucket(1, 1, "60s")),
        ({"rate": "100/s", "per": "ip"}, [{"key": "remote_address"}], bucket(5, 5, "0.05s")),
    ],
)
def test_a_limit_has_a_bucket_for_each_that_is_counted(
    limit: dict[str, Any], entries: list[Any], counted: dict[str, Any]
) -> None:
    fleet = {"clients": KEYS, **listener(auth={"clients": "all"}, limits=[limit])}
    assert values(fleet, "descriptors") == [[{"entries": entries, "token_bucket": counted}]]
    assert values(fleet, "token_bucket") == [UNBOUNDED, counted]
    (((action,),),) = [[one["actions"] for one in each] for each in values(fleet, "rate_limits")]
    assert set(action) == ({"remote_address"} if limit["per"] == "ip" else {"metadata"})
    assert values(fleet, "max_dynamic_descriptors") == [100_000]


def test_a_limit_of_all_has_one_bucket() -> None:
    fleet = listener(limits=[{"rate": "10/s", "burst": 4, "per": "total"}])
    assert values(fleet, "token_bucket") == [bucket(5, 1, "0.1s")]
    assert values(fleet, "descriptors") == []


def test_limits_are_enforced_for_every_request() -> None:
    fleet = listener(limits=[{"rate": "10/s", "per": "total"}])
    every = {"default_value": {"numerator": 100}}
    assert values(fleet, "filter_enabled") == values(fleet, "filter_enforced") == [every]


def test_a_clients_rate_is_its_own_and_counted_where_it_is_let_in() -> None:
    keys = {
        "a": {"key": "env:A", "rate": "10/s", "burst": 2},
        "b": {"key": "env:B", "rate": "10/s"},
        "c": {"key": "env:C"},
    }
    fleet = {"clients": keys, **listener(auth={"clients": ["a", "c"]})}
    entries = [{"key": "client", "value": "a"}]
    assert values(fleet, "descriptors") == [[{"entries": entries, "token_bucket": bucket(3, 1, "0.1s")}]]


def test_guesses_of_keys_are_counted_before_a_key_is_asked_for() -> None:
    limits = [{"rate": "10/s", "per": "client"}, {"rate": "20/s", "per": "ip"}]
    fleet = {
        "clients": KEYS,
        **listener(auth={"clients": "all", "except": ["10.0.0.0/8"]}, limits=limits, allow=["10.0.0.0/8"],
                   cors={"origins": ["https://a.org"], "headers": ["X-A"]}),
    }  # fmt: skip
    (filters,) = [each for each in values(fleet, "http_filters") if len(each) > 3]
    names = [one["name"] for one in filters if not one["name"].startswith("lb.ready")]
    assert names == [
        "envoy.filters.http.cors", "lb.addresses", "lb.limit.ip.2", "lb.except", "lb.auth",
        "lb.limit.known.1", "envoy.filters.http.router",
    ]  # fmt: skip


# browsers


@pytest.mark.parametrize("credentials", [True, False])
def test_what_browsers_are_told(credentials: bool) -> None:
    cors = {"origins": ["https://a.org", "https://b.org"], "methods": ["GET", "POST"], "headers": ["X-A"],
            "expose": ["X-B"], "max_age": "10m", "credentials": credentials}  # fmt: skip
    fleet = listener(cors=cors)
    assert values(fleet, "allow_origin_string_match") == [
        [{"exact": "https://a.org"}, {"exact": "https://b.org"}]
    ]
    assert values(fleet, "allow_methods") == ["GET, POST"]
    assert values(fleet, "max_age") == ["600"]
    assert values(fleet, "allow_credentials") == [{"value": credentials}]
    assert values(fleet, "forward_not_matching_preflights") == [{"value": False}]


def test_servers_say_nothing_of_who_may_read_where_the_listener_does() -> None:
    fleet = listener(cors={"origins": ["https://a.org"], "headers": ["X-A"]})
    removed = {name for each in values(fleet, "response_headers_to_remove") for name in each}
    assert removed >= {
        "access-control-allow-origin", "access-control-allow-credentials", "access-control-allow-methods",
        "access-control-allow-headers", "access-control-max-age",
    }  # fmt: skip
    assert "access-control-allow-origin" not in str(values(listener(), "response_headers_to_remove"))


# pools of clients


@pytest.mark.parametrize("bound", [True, False])
def test_a_route_refuses_the_clients_that_are_kept_to_other_pools(bound: bool) -> None:
    one = {"key": "env:A", **({"pools": ["other"]} if bound else {})}
    fleet = {
        "clients": {"a": one, "b": {"key": "env:B"}},
        **listener(auth={"clients": "all"}, routes=[{"path": "/o", "pool": "other"}, {"pool": "chat"}]),
        "pools": {**pool()["pools"], "other": {"servers": ["10.0.0.9:8000"]}},
    }
    refused = [found["pools"]["principals"] for found in values(fleet, "policies") if "pools" in found]
    assert len(refused) == bound
    assert all("{'exact': 'a'}" in str(found) and "'b'" not in str(found) for found in refused)
