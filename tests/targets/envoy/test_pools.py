"""What a pool's keys become in its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.targets.envoy.values import pool, values

TWO = ["10.0.0.1:8000", "10.0.0.2:8000"]
BACKUP = {"address": "10.0.0.9:8000", "backup": True}


def server(**keys: Any) -> dict[str, Any]:
    return {"address": "10.0.0.3:8000", **keys}


# servers


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, {}),
        ({"weight": 1}, {}),
        ({"weight": 3}, {"load_balancing_weight": {"value": 3}}),
        ({"weight": 0}, {"health_status": "DRAINING"}),
        ({"state": "drain"}, {"health_status": "DRAINING"}),
        (
            {"state": "drain", "weight": 2},
            {"health_status": "DRAINING", "load_balancing_weight": {"value": 2}},
        ),
        ({"state": "down"}, {"health_status": "UNHEALTHY"}),
    ],
)
def test_what_is_said_of_a_server(keys: dict[str, Any], said: dict[str, Any]) -> None:
    (endpoints,) = values(pool(servers=[server(name="third", **keys), "10.0.0.1:8000"]), "lb_endpoints")
    place = {"socket_address": {"address": "10.0.0.3", "port_value": 8000}}
    named = {"filter_metadata": {"lbgen": {"server": "third"}}}
    assert endpoints[0] == {"endpoint": {"address": place}, "metadata": named, **said}
    assert endpoints[1].keys() == {"endpoint", "metadata"}


@pytest.mark.parametrize(
    ("servers", "priorities", "factor"),
    [
        (TWO, [(0, 2)], []),
        ([*TWO, BACKUP], [(0, 2), (1, 1)], [200]),
        ([*TWO, server(), BACKUP], [(0, 3), (1, 1)], [300]),
    ],
)
def test_backups_wait_until_no_server_lives(
    servers: list[Any], priorities: list[tuple[int, int]], factor: list[int]
) -> None:
    """Envoy shares requests with the next priority once (living / all) * factor is below 100 %."""
    (groups,) = values(pool(servers=servers), "endpoints")
    assert [(one["priority"], len(one["lb_endpoints"])) for one in groups] == priorities
    assert [one["value"] for one in values(pool(servers=servers), "overprovisioning_factor")] == factor


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        ({"servers": TWO}, 1_000_000),
        ({"servers": TWO, "max_in_flight": 5}, 10),
        ({"servers": [*TWO, BACKUP], "max_in_flight": 5}, 10),
        ({"servers": [*TWO, server(state="down")], "max_in_flight": 5}, 10),
        ({"servers": [*TWO, server(max_in_flight=7)], "max_in_flight": 5}, 17),
        ({"servers": [*TWO, server(max_in_flight=7)]}, 1_000_000),
    ],
)
def test_a_pool_takes_what_its_servers_take_together(keys: dict[str, Any], most: int) -> None:
    (found,) = [each for each in values(pool(**keys), "thresholds") if each]
    assert {name: value for name, value in found[0].items() if name != "#"} == {
        "max_connections": 1_000_000, "max_pending_requests": 1_000_000, "max_requests": most,
        "max_retries": 1_000_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resolver", "place"),
    [
        ("10.0.0.53:5353", ("10.0.0.53", 5353)),
        ("10.0.0.53", ("10.0.0.53", 53)),
        ("[fd00::53]:5353", ("fd00::53", 5353)),
        ("[fd00::53]", ("fd00::53", 53)),
    ],
)
def test_name_servers(resolver: str, place: tuple[str, int]) -> None:
    fleet = pool(servers=["gpu:8000"], dns={"mode": "runtime", "resolver": [resolver], "valid": "7s"})
    ((one,),) = values(fleet, "resolvers")
    assert (one["socket_address"]["address"], one["socket_address"]["port_value"]) == place
    assert values(fleet, "dns_refresh_rate") == ["7s"]
    assert "STRICT_DNS" in values(fleet, "type")


# connections


@pytest.mark.parametrize(
    ("keepalive", "idle", "requests"),
    [
        ({"idle_timeout": "2s", "requests": 7}, ["2s"], 7),
        (False, [], 1),
    ],
)
def test_connections_are_kept(keepalive: Any, idle: list[str], requests: int) -> None:
    found = values(pool(keepalive=keepalive), "common_http_protocol_options")
    (common,) = [one for one in found if "max_requests_per_connection" in one]
    assert [value for name, value in common.items() if name == "idle_timeout"] == idle
    assert common["max_requests_per_connection"] == {"value": requests}


@pytest.mark.parametrize(("size", "kib"), [("64KiB", 64), (65_537, 65), ("4KiB", 4)])
def test_headers_of_answers_fit_in_whole_kib(size: str | int, kib: int) -> None:
    assert values(pool(header_size=size), "max_response_headers_kb") == [{"value": kib}]


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ({"ca": "/ca.pem"}, {"auto_host_sni": True, "auto_sni_san_validation": True}),
        ({"verify": False}, {"auto_host_sni": True, "auto_sni_san_validation": False}),
        ({"ca": "/ca.pem", "server_name": "x.org"}, {"sni": "x.org"}),
        ({"verify": False, "server_name": "x.org"}, {"sni": "x.org"}),
    ],
)
def test_a_servers_name_is_told_and_compared(tls: dict[str, Any], expected: dict[str, Any]) -> None:
    (socket,) = values(pool(tls=tls), "transport_socket")
    said = socket["typed_config"]
    common = said["common_tls_context"]
    assert {name: value for name, value in said.items() if name in {"sni", *expected}} == expected
    assert common["alpn_protocols"] == ["http/1.1"]
    compared = common.get("validation_context")
    if tls.get("verify") is False:
        assert compared is None
    else:
        assert compared["trusted_ca"] == {"filename": "/ca.pem"}
        names = [{"san_type": "DNS", "matcher": {"exact": "x.org"}}] if "server_name" in tls else None
        assert compared.get("match_typed_subject_alt_names") == names


# health


def test_a_check_keeps_to_the_fleets_times_and_numbers() -> None:
    health = {"path": "/ok", "interval": "3s", "timeout": "2s", "rise": 4, "fall": 5}
    ((check,),) = values(pool(health=health), "health_checks")
    asked = check.pop("http_health_check")
    assert check == {
        "timeout": "2s", "interval": "3s", "no_traffic_interval": "3s",
        "unhealthy_threshold": {"value": 5}, "healthy_threshold": {"value": 4},
    }  # fmt: skip
    assert asked["path"] == "/ok"


@pytest.mark.parametrize(
    ("expect", "retried"),
    [(200, [(100, 200), (201, 600)]), (204, [(100, 204), (205, 600)]), (599, [(100, 599)])],
)
def test_any_other_status_counts_as_one_failure(expect: int, retried: list[tuple[int, int]]) -> None:
    (asked,) = values(pool(health={"expect": expect}), "http_health_check")
    assert asked["expected_statuses"] == [{"start": expect, "end": expect + 1}]
    assert [(one["start"], one["end"]) for one in asked["retriable_statuses"]] == retried


@pytest.mark.parametrize(
    ("keys", "host"),
    [
        ({}, "10.0.0.1:8000"),
        ({"servers": TWO}, "localhost"),
        ({"servers": ["unix:/run/a.sock"]}, "localhost"),
        ({"host_header": "x.org"}, "x.org"),
        ({"host_header": "backend"}, "10.0.0.1:8000"),
        ({"tls": {"ca": "/c", "server_name": "y.org"}}, "y.org"),
        ({"host_header": "x.org", "tls": {"ca": "/c", "server_name": "y.org"}}, "x.org"),
    ],
)
def test_the_host_that_a_check_names(keys: dict[str, Any], host: str) -> None:
    assert [one["host"] for one in values(pool(**keys), "http_health_check")] == [host]


@pytest.mark.parametrize(
    ("protocol", "port", "codec"),
    [("http", None, None), ("h2c", None, "HTTP2"), ("h2c", 9000, None)],
)
def test_a_check_speaks_as_the_servers_do(protocol: str, port: int | None, codec: str | None) -> None:
    health = {"path": "/ok", **({"port": port} if port else {})}
    fleet = pool(engine="http", protocol=protocol, health=health)
    assert [one.get("codec_client_type") for one in values(fleet, "http_health_check")] == [codec]
    found = [one["port_value"] for one in values(fleet, "health_check_config")]
    assert found == ([port] if port else [])


@pytest.mark.parametrize(
    ("servers", "share"),
    [
        (["10.0.0.1:8000"], None),
        (TWO, 50),
        ([*TWO, server()], 50),
        ([*TWO, BACKUP, server(backup=True)], 25),
        (["10.0.0.1:8000", server(state="drain")], None),
        (["10.0.0.1:8000", server(weight=0)], None),
        (["gpu:8000"], None),
        (["gpu:8000", "10.0.0.1:8000"], 50),
    ],
)
def test_one_server_at_least_is_never_ejected(servers: list[Any], share: int | None) -> None:
    fleet = pool(servers=servers, passive_health={"failures": 4, "eject": "9s"})
    found = values(fleet, "outlier_detection")
    assert [one["max_ejection_percent"] for one in found] == ([{"value": share}] if share else [])
    for one in found:
        assert one["consecutive_local_origin_failure"] == {"value": 4}
        assert one["base_ejection_time"] == one["max_ejection_time"] == "9s"
        enforced = {name: value["value"] for name, value in one.items() if name.startswith("enforcing")}
        assert {name for name, value in enforced.items() if value} == {
            "enforcing_consecutive_local_origin_failure"
        }


# second tries


@pytest.mark.parametrize(
    ("retry", "policies"),
    [
        ({"attempts": 0}, [(0, None, None)]),
        ({"attempts": 2, "on": ["connect"]}, [(2, "connect-failure,refused-stream", None)]),
        (
            {"attempts": 1, "on": ["connect", "reset", "timeout"]},
            # What may be sent twice, then all the rest.
            [(1, "connect-failure,refused-stream,reset", None), (1, "connect-failure,refused-stream", None)],
        ),
        (
            {"attempts": 1, "on": ["connect", "503"], "replay_posts": True},
            [(1, "connect-failure,refused-stream,retriable-status-codes", [503])],
        ),
        (
            {"attempts": 3, "on": ["503", "429"]},
            [(3, "retriable-status-codes", [503, 429]), (0, None, None)],
        ),
    ],
)
def test_tries(retry: dict[str, Any], policies: list[tuple[int, str | None, list[int] | None]]) -> None:
    found = values(pool(retry=retry, timeouts={"first_byte": "5m"}), "retry_policy")
    assert [
        (one["num_retries"]["value"], one.get("retry_on"), one.get("retriable_status_codes")) for one in found
    ] == policies
    assert {one["per_try_timeout"] for one in found} == {"300s"}
    for one in found:
        assert ("retry_host_predicate" in one) is ("retry_on" in one)
