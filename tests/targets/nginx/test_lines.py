"""Lines of an NGINX file that keys of a fleet file stand for, one key at a time."""

from __future__ import annotations

import json
import re

import pytest

from tests.targets.loaded import CHAT, files, lines, refused

ROUTED = "listeners: {{l: {{bind: '8080', routes: [{{{match}, pool: chat}}, {{pool: chat}}]}}}}\n"


def pool(**keys: object) -> str:
    """Return a fleet of one pool with some keys."""
    servers = {"servers": ["gpu-0:8000", "gpu-1:8000"]}
    return json.dumps({"pools": {"chat": {"engine": "vllm", **servers, **keys}}})


def starting(text: str, *words: str, version: str = "1.22") -> list[str]:
    return [line for line in lines(text, version) if line.startswith(words)]


# logs


@pytest.mark.parametrize(
    ("logs", "access", "error"),
    [
        ("{}", "access_log /dev/stdout lbgen if=$lb_in_log;", "error_log stderr notice;"),
        ("{level: error}", "access_log /dev/stdout lbgen if=$lb_in_log;", "error_log stderr error;"),
        ("{level: debug}", "access_log /dev/stdout lbgen if=$lb_in_log;", "error_log stderr info;"),
        (
            "{to: /var/log/lb.log}",
            "access_log /var/log/lb.log lbgen if=$lb_in_log;",
            "error_log stderr notice;",
        ),
        (
            "{to: 'syslog:10.0.0.1:514'}",
            "access_log syslog:server=10.0.0.1:514,tag=lbgen lbgen if=$lb_in_log;",
            "error_log syslog:server=10.0.0.1:514,tag=lbgen notice;",
        ),
    ],
)
def test_where_logs_go(logs: str, access: str, error: str) -> None:
    found = lines(CHAT + f"logs: {logs}")
    assert access in found
    assert error in found
    assert {line for line in found if line.startswith("access_log")} == {access}


def test_the_form_of_the_access_log() -> None:
    json_form = "".join(files(CHAT, "nginx", "1.22").values())
    combined = "".join(files(CHAT + "logs: {format: combined}", "nginx", "1.22").values())
    assert "log_format lbgen escape=json" in json_form
    assert '"request_id":' in json_form
    assert "log_format lbgen" in combined
    assert "escape=json" not in combined
    assert "$http_user_agent" in combined
    assert "$args" not in json_form + combined, "a query may hold keys"


# the way to a pool


@pytest.mark.parametrize(
    ("timeouts", "read"),
    [({"first_byte": "5m", "idle": "2m"}, "5m"), ({"first_byte": "2m", "idle": "5m"}, "5m")],
)
def test_one_timer_holds_for_the_first_byte_and_for_gaps(timeouts: dict[str, str], read: str) -> None:
    assert f"proxy_read_timeout {read};" in lines(pool(timeouts=timeouts))


def test_timers_of_a_route_win_one_by_one() -> None:
    text = pool(timeouts={"connect": "7s", "send": "9s"})
    routes = {"l": {"bind": "8080", "routes": [{"pool": "chat", "timeouts": {"send": "11s"}}]}}
    found = lines(json.dumps({**json.loads(text), "listeners": routes}))
    assert "proxy_connect_timeout 7s;" in found
    assert "proxy_send_timeout 11s;" in found


def test_an_upgraded_connection_has_the_tunnels_timer() -> None:
    text = pool(timeouts={"tunnel": "3h", "send": "9s"})
    found = lines(json.dumps({**json.loads(text), "listeners": {"l": {"bind": "8080", "websocket": True}}}))
    assert "proxy_read_timeout 3h;" in found
    assert "proxy_send_timeout 3h;" in found
    assert "proxy_set_header Upgrade websocket;" in found
    assert "proxy_set_header Connection upgrade;" in found
    assert "proxy_set_header Upgrade websocket;" not in lines(text)


@pytest.mark.parametrize(
    ("tls", "servers", "name", "verify", "ca"),
    [
        ({}, ["gpu-0:8000", "gpu-0:8001"], "gpu-0", "on", "/etc/ssl/certs/ca-certificates.crt"),
        ({"server_name": "x.org", "ca": "/ca.pem"}, ["gpu-0:8000", "gpu-1:8000"], "x.org", "on", "/ca.pem"),
        ({"verify": False}, ["gpu-0:8000"], "gpu-0", "off", None),
    ],
)
def test_tls_to_servers(
    tls: dict[str, object], servers: list[str], name: str, verify: str, ca: str | None
) -> None:
    """`sni` without `server_name`: the host that all servers have."""
    found = lines(pool(tls=tls, servers=servers))
    assert f"proxy_ssl_name {name};" in found
    assert "proxy_ssl_server_name on;" in found
    assert f"proxy_ssl_verify {verify};" in found
    named = [line for line in found if line.startswith("proxy_ssl_trusted_certificate")]
    assert set(named) == ({f"proxy_ssl_trusted_certificate {ca};"} if ca else set())
    assert any("proxy_pass https://" in line or 'proxy_pass "https://' in line for line in found)


def test_discovered_servers_are_told_the_name_that_was_looked_up() -> None:
    text = json.dumps(
        {"pools": {"chat": {"engine": "vllm", "discover": {"dns": "vllm.svc", "port": 8000}, "tls": {}}}}
    )
    assert "proxy_ssl_name vllm.svc;" in lines(text, "1.30")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("client", "$lb_host"), ("x.org", "x.org"), ("backend", "gpu-0:8000")],
)
def test_the_host_that_servers_see(host: str, expected: str) -> None:
    found = lines(pool(host_header=host, servers="gpu-0:8000"))
    assert f"proxy_set_header Host {expected};" in found


@pytest.mark.parametrize(
    ("servers", "expected"), [(["gpu-0:8000", "gpu-0:8000"], None), (["gpu-0:8000", "gpu-0:8001"], "gpu-0")]
)
def test_the_host_of_servers_with_one_name(servers: list[str], expected: str | None) -> None:
    if expected:
        assert f"proxy_set_header Host {expected};" in lines(pool(host_header="backend", servers=servers))


@pytest.mark.parametrize(
    ("keepalive", "header"),
    [({}, 'proxy_set_header Connection "";'), (False, "proxy_set_header Connection close;")],
)
def test_connections_are_kept_or_closed(keepalive: object, header: str) -> None:
    keys = {"keepalive": keepalive} if keepalive is False else {}
    assert header in lines(pool(**keys))


PROBES = "proxy_next_upstream_tries 10;"
"""Of the question whether any server is ready."""


@pytest.mark.parametrize(
    ("retry", "words", "tries"),
    [
        ({"attempts": 0}, "off", None),
        ({"attempts": 1, "on": ["connect"]}, "error timeout", 2),
        ({"attempts": 2, "on": ["connect", "503"]}, "error timeout http_503", 3),
        (
            {"attempts": 2, "on": ["connect", "reset"], "replay_posts": True},
            "error timeout non_idempotent",
            3,
        ),
        ({"attempts": 2, "on": ["connect"], "replay_posts": True}, "error timeout", 3),
    ],
)
def test_tries(retry: dict[str, object], words: str, tries: int | None) -> None:
    found = lines(pool(retry=retry))
    said = {line for line in found if line.startswith("proxy_next_upstream ")}
    assert said == ({f"proxy_next_upstream {words};"} if words != "error timeout" else set())
    said = {line for line in found if line.startswith("proxy_next_upstream_tries")} - {PROBES}
    assert said == ({f"proxy_next_upstream_tries {tries};"} if tries else set())


def test_what_the_balancer_sends_itself_is_hidden_of_servers() -> None:
    plain = starting(CHAT, "proxy_hide_header")
    assert set(plain) == {"proxy_hide_header X-Request-Id;"}
    text = CHAT + "listeners: {l: {bind: '8080', cors: {origins: ['https://a.org']}}}"
    hidden = {line.split()[1].rstrip(";") for line in starting(text, "proxy_hide_header")}
    names = ("Origin", "Credentials", "Methods", "Headers")
    assert {"X-Request-Id", "Access-Control-Max-Age"} <= hidden
    # What a server exposes is added to.
    assert "Access-Control-Expose-Headers" not in hidden
    assert {f"Access-Control-Allow-{name}" for name in names} <= hidden


# conditions


def condition(match: str) -> list[tuple[str, str]]:
    """Return source and pattern of each map that makes 1 of a request that fits a route."""
    found, pairs = lines(CHAT + ROUTED.format(match=match)), []
    for number, line in enumerate(found):
        if line.startswith("map ") and "$lb_if_" in line:
            rows = [row.rsplit(" ", 1) for row in found[number + 1 : number + 3]]
            pairs += [(line.split()[1], row[0]) for row in rows if row[-1] == "1;"]
    return pairs


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("host: a.org", ("$host", '"~*^(?:a[.]org)$"')),
        ("host: '*.a.org'", ("$host", '"~*^(?:(?:[^.]+[.])+a[.]org)$"')),
        ("method: [GET, POST]", ("$request_method", '"~^(?:GET|POST)$"')),
        ("header: {X-Tier: 'a+b'}", ("$http_x_tier", '"~^(?:[ \\\\t]*a[+]b[ \\\\t]*)$"')),
        ("prompt_over: 1KiB", ("$content_length", None)),
        ("prompt_under: 1KiB", ("$content_length", None)),
    ],
)
def test_conditions(match: str, expected: tuple[str, str | None]) -> None:
    source, pattern = expected
    found = condition(match)
    assert source in [one for one, _ in found]
    if pattern:
        normal = [(one, text.replace("\\\\.", "[.]")) for one, text in found]
        assert (source, pattern) in normal


@pytest.mark.parametrize(
    ("match", "length", "fits"),
    [
        ("prompt_over: 1KiB", 1024, False),
        ("prompt_over: 1KiB", 1025, True),
        ("prompt_under: 1KiB", 1023, True),
        ("prompt_under: 1KiB", 1024, False),
    ],
)
def test_lengths_at_their_bounds(match: str, length: int, fits: bool) -> None:
    ((_, pattern),) = [one for one in condition(match) if one[0] == "$content_length"]
    longer = bool(re.search(pattern.strip('"')[1:].replace("\\\\", "\\"), str(length)))
    assert longer is (fits if "over" in match else not fits)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_route_for_websockets_or_for_all_else(wanted: bool) -> None:
    routes = f"[{{websocket: {str(wanted).lower()}, pool: chat}}, {{path: /x, pool: chat}}]"
    text = CHAT + f"listeners: {{l: {{bind: '8080', websocket: true, routes: {routes}}}}}"
    found = lines(text)
    assert "map $http_upgrade $lb_upgrade {" in found
    assert '"~*^websocket$" 1;' in found
    negated = [line for line in found if line.startswith("map $lb_upgrade $lb_if")]
    assert bool(negated) is (not wanted)


# versions


@pytest.mark.parametrize(
    ("version", "listen", "directive"),
    [("1.22", "listen 8443 ssl http2;", False), ("1.25.0", "listen 8443 ssl http2;", False),
     ("1.25.1", "listen 8443 ssl;", True), ("1.30", "listen 8443 ssl;", True)],
)  # fmt: skip
def test_http2_is_said_as_the_version_wants_it(version: str, listen: str, directive: bool) -> None:
    found = lines(CHAT + "listeners: {l: {bind: '8443', tls: {bundle: b.pem}}}", version)
    opened = [line.replace("*:", "") for line in found if line.startswith("listen") and "8443" in line]
    assert opened[0] == listen
    assert ("http2 on;" in found) is directive


@pytest.mark.parametrize(("version", "number"), [("1.27.2", 1), ("1.27.3", 0)])
def test_names_are_followed_from_1_27_3_on(version: str, number: int) -> None:
    text = pool(dns={"mode": "runtime", "resolver": ["10.0.0.53:53"]})
    assert len(refused(text, "nginx", version)) == number


@pytest.mark.parametrize(("version", "number"), [("1.29.3", 1), ("1.29.4", 0)])
def test_h2c_is_spoken_from_1_29_4_on(version: str, number: int) -> None:
    text = pool(engine="http", protocol="h2c", health=False)
    assert len([one for one in refused(text, "nginx", version) if one.code == "target-refused"]) == number
    if not number:
        assert "proxy_http_version 2;" in lines(text, version)


# main


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("{}", ["worker_processes auto;"]),
        ("{user: web, drain_timeout: 7m}", ["user web;", "worker_shutdown_timeout 7m;"]),
    ],
)
def test_the_main_level(settings: str, expected: list[str]) -> None:
    found = lines(CHAT + f"targets: {{nginx: {settings}}}")
    assert set(expected) <= set(found)
    (connections,) = re.findall(r"worker_connections (\d+);", "\n".join(found))
    assert f"worker_rlimit_nofile {2 * int(connections)};" in found


def test_two_listeners_on_one_address_have_a_server_each() -> None:
    text = CHAT + (
        "clients: {a: {key: 'env:A'}}\n"
        "listeners:\n"
        "  a: {bind: '8080', hosts: [a.org], auth: {clients: [a]}, limits: [{rate: 5/s, per: ip}]}\n"
        "  b: {bind: '8080', hosts: [b.org], auth: none}\n"
    )
    main = "\n".join(lines(text))
    blocks = {name: block for block in main.split("\nserver {")[1:] if (name := named(block))}
    assert set(blocks) >= {"a.org", "b.org"}
    for words in ("if ($lb_denied_a) { return 401; }", "limit_req zone=lb-rate-a-1;"):
        assert words in blocks["a.org"]
        assert words not in blocks["b.org"]
    assert 'set $lb_client "";' in blocks["b.org"]


def named(block: str) -> str:
    found = [line.split()[1].rstrip(";") for line in block.splitlines() if line.startswith("server_name ")]
    return found[0] if found else ""


def test_server_names_where_pools_or_sockets_differ_in_case_alone() -> None:
    """NGINX refuses two plain entries of a map that differ in case alone."""
    text = json.dumps(
        {
            "pools": {
                "A": {"servers": [{"address": "10.0.0.1:80", "name": "x"}]},
                "a": {"servers": [{"address": "10.0.0.1:80", "name": "y"}, "10.0.0.2:80"]},
            },
            "listeners": {"l": {"routes": [{"split": {"A": 1, "a": 1}}]}},
        }
    )
    found = lines(text, "1.22")
    assert '"~^A 10[.]0[.]0[.]1:80$" x;' in found
    assert '"~^a 10[.]0[.]0[.]1:80$" y;' in found
    assert '"a 10.0.0.2:80" 10.0.0.2;' in found
