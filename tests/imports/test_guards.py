"""What refused requests and was not carried over closes its listener, or its route, and is listed."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.ledger import Fate
from lbgen.imports.whole import import_configurations

SITE = """\
upstream gpus {{ server 10.0.0.1:8000; }}
upstream others {{ server 10.0.0.2:8000; }}
server {{
    listen 127.0.0.1:8080;
    {server}
    location / {{ proxy_pass http://gpus; {location} }}
    {others}
}}
"""
OPEN = "location /open { proxy_pass http://others; }"
PROXY = """\
defaults
  mode http
frontend web
  bind 127.0.0.1:8080
  {front}
  default_backend gpus
backend gpus
  {back}
  server a 10.0.0.1:8000
backend others
  server b 10.0.0.2:8000
"""
EVERYBODY = ("everybody",)
NGINX_GUARDS = [
    "limit_except GET { deny all; }",
    "access_by_lua_block { if not ok() then ngx.exit(403) end }",
    "access_by_lua_file /etc/nginx/check.lua;",
    "rewrite_by_lua_block { ngx.exit(403) }",
    'auth_basic "us"; auth_basic_user_file users;',
    'auth_jwt "us";',
    "auth_ldap on;",
    "modsecurity on;",
    "satisfy any;",
    "allow 10.0.0.0/8; deny 10.9.0.0/16; deny all;",
    "if ($bad) { rewrite ^ /403 last; }",
    "if ($bad) { return 403; }",
    "if ($bad) { return 429; }",
    "if ($bad) { return 302 /login; }",
    "return 403;",
]
SERVER_GUARDS = [
    *(one for one in NGINX_GUARDS if "limit_except" not in one),
    "rewrite ^/admin /403 last;",
    "location ~ ^/(admin|debug[0-9]) { deny all; }",
    'if ($http_authorization != "Bearer sk-aaaa") { return 401; } satisfy any;',
    'if ($http_authorization != "Bearer sk-aaaa") { return 401; } access_by_lua_block { check() }',
]
HAPROXY_GUARDS = [
    "tcp-request connection reject if { src -f /etc/bad }",
    "tcp-request content reject unless { ssl_c_verify 0 }",
    "tcp-request session reject unless { fc_rcvd_proxy }",
    "http-request lua.check",
    "http-request use-service lua.check if { path /x }",
    "http-request deny unless { src -f /etc/good }",
    "http-request return status 403 if { ssl_c_verify 1 }",
    "http-request redirect location /login unless { cook(session) -m found }",
    "http-request silent-drop if { req.fhdr(a) -m len 0 }",
    "http-request auth unless { http_auth(users) }",
    "http-response deny if { res.hdr(x) y }",
    "block if { src -f /etc/bad }",
    "reqdeny ^x",
    (
        "http-request deny unless { hdr(Authorization) 'Bearer abc' }\n"
        "  http-request deny unless { hdr(X-Org) one } { ssl_fc }"
    ),
    (
        "http-request deny unless { hdr(Authorization) 'Bearer abc' }\n"
        "  http-request deny if { path_beg /b } !{ hdr(Authorization) 'Bearer def' }"
    ),
    "http-request deny unless { src 10.0.0.0/8 }\n  http-request deny unless { src 10.1.0.0/16 }",
    "http-request deny unless { path_beg /v1 }\n  http-request deny unless { hdr(host) a.example.org }",
]


def imported(tmp_path, name, text):
    """Return the fleet, and the lines that were left."""
    (tmp_path / name).write_text(text)
    found = import_configurations([str(tmp_path / name)])
    loaded = load([Source("fleet.yaml", found.text(comments=False))], environ={})
    assert [problem for problem in loaded.problems if problem.is_error] == []
    assert loaded.fleet is not None
    return loaded.fleet, [one.text for one in found.entries if one.fate is Fate.LEFT]


def clients_of(listener):
    """Return the clients that a listener lets in; none where it is open."""
    return listener.auth.clients


@pytest.mark.parametrize("guard", SERVER_GUARDS)
def test_a_guard_of_a_server_closes_its_listener(tmp_path, guard):
    text = SITE.format(server=guard, location="", others=OPEN)
    fleet, left = imported(tmp_path, "nginx.conf", text)
    assert [clients_of(one) for one in fleet.listeners] == [EVERYBODY]
    assert any(line.split()[0] in guard for line in left)


@pytest.mark.parametrize("guard", NGINX_GUARDS)
def test_a_guard_of_a_location_closes_its_route_alone(tmp_path, guard):
    text = SITE.format(server="", location=guard, others=OPEN)
    fleet, left = imported(tmp_path, "nginx.conf", text)
    (listener,) = fleet.listeners
    assert clients_of(listener) == ()
    assert {(one.pool, one.respond and one.respond.status) for one in listener.routes} == {
        ("others", None),
        (None, 501),
    }
    assert any(line.split()[0] in guard for line in left)


def test_certificates_of_clients_without_an_authority_close_the_listener(tmp_path):
    guard = "listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; ssl_verify_client on;"
    fleet, left = imported(tmp_path, "nginx.conf", SITE.format(server=guard, location="", others=""))
    assert {clients_of(one) for one in fleet.listeners} == {EVERYBODY}
    assert "ssl_verify_client on" in left


@pytest.mark.parametrize(
    "harmless",
    [
        "if ($request_method = OPTIONS) { return 204; }",
        "if ($host = a.example.org) { return 301 https://b.example.org$request_uri; }",
        "auth_basic off;",
        "satisfy all;",
        r"location ~ /\.(ht|git) { deny all; }",
    ],
)
def test_what_refuses_nobody_closes_nothing(tmp_path, harmless):
    fleet, _ = imported(tmp_path, "nginx.conf", SITE.format(server=harmless, location="", others=OPEN))
    assert [clients_of(one) for one in fleet.listeners] == [()]
    assert {one.pool for one in fleet.listeners[0].routes} == {"others", "gpus"}


@pytest.mark.parametrize("guard", HAPROXY_GUARDS)
def test_a_guard_of_a_frontend_closes_its_listener(tmp_path, guard):
    fleet, left = imported(tmp_path, "haproxy.cfg", PROXY.format(front=guard, back=""))
    assert [clients_of(one) for one in fleet.listeners] == [EVERYBODY]
    assert any(line.split()[0] in guard for line in left)


@pytest.mark.parametrize(
    "guard",
    [
        *(f"http-request {action} if {{ path /x }}" for action in ("deny", "silent-drop", "reject", "auth")),
        "http-request lua.check",
        "tcp-request content reject if { src -f /etc/bad }",
    ],
)
def test_a_guard_of_a_backend_closes_its_routes(tmp_path, guard):
    fleet, left = imported(tmp_path, "haproxy.cfg", PROXY.format(front="", back=guard))
    assert [clients_of(one) for one in fleet.listeners] == [EVERYBODY]
    assert any(line.split()[0] in guard for line in left)
    front = "use_backend others if { path_beg /open }"
    fleet, _ = imported(tmp_path, "haproxy.cfg", PROXY.format(front=front, back=guard))
    (listener,) = fleet.listeners
    assert clients_of(listener) == ()
    assert {(one.pool, one.respond and one.respond.status) for one in listener.routes} == {
        ("others", None),
        (None, 501),
    }


def test_what_defaults_refuse_closes_the_listener(tmp_path):
    text = PROXY.format(front="", back="").replace(
        "mode http", "mode http\n  http-request deny if { src -f x }"
    )
    fleet, _ = imported(tmp_path, "haproxy.cfg", text.replace("defaults", "defaults base", 1))
    assert [clients_of(one) for one in fleet.listeners] == [EVERYBODY]


def test_networks_that_are_refused_add_up(tmp_path):
    front = "http-request deny if { src 10.1.0.0/16 }\n  tcp-request connection reject if { src 10.2.0.0/16 }"
    fleet, left = imported(tmp_path, "haproxy.cfg", PROXY.format(front=front, back=""))
    assert [str(one) for one in fleet.listeners[0].deny] == ["10.1.0.0/16", "10.2.0.0/16"]
    assert left == []


def test_paths_that_alone_may_pass_hold_for_other_paths_too(tmp_path):
    front = (
        "http-request deny unless { path_beg /v1/ }\n"
        "  use_backend others if { path_beg /admin/ }\n"
        "  use_backend others if { path_beg /v1/x/ }"
    )
    fleet, _ = imported(tmp_path, "haproxy.cfg", PROXY.format(front=front, back=""))
    (listener,) = fleet.listeners
    assert [(one.pool, list(one.match.paths)) for one in listener.routes] == [
        ("others", ["/v1/x"]),
        ("gpus", ["/v1"]),
        (None, []),
    ]


def test_a_closed_route_sets_no_headers(tmp_path):
    location = "limit_except GET { deny all; } proxy_set_header X-Api-Key abc;"
    fleet, _ = imported(tmp_path, "nginx.conf", SITE.format(server="", location=location, others=OPEN))
    (closed,) = (one for one in fleet.listeners[0].routes if one.respond is not None)
    assert not closed.headers.set
