"""Listeners, routes, keys and limits as server blocks."""

from __future__ import annotations

import pytest

from lbgen import model
from lbgen.model import (
    Acme,
    Auth,
    ExternalAuth,
    Headers,
    Limit,
    ListenerTls,
    Match,
    Metrics,
    Respond,
    Secret,
    Timeouts,
)  # fmt: skip
from lbgen.targets.nginx.routes.routing import Spot, candidates, covers
from lbgen.units import Address, Rate
from tests import factory
from tests.targets.nginx.parsed import args, conf, files, find, locations, proxied

TLS = ListenerTls("c.pem", "k.pem", None, None, "intermediate", True, None)
VERSIONS = ("1.22", "1.26.3", "1.30.6")


def listener(*routes, **values):
    numbered = tuple(
        route._replace(path=("listeners", "default", "routes", i)) for i, route in enumerate(routes)
    )
    return factory.listener(**({"routes": numbered} if routes else {}), **values)


def fleet(*routes, pools=("chat", "other"), **values):
    return factory.fleet(*map(factory.pool, pools), listeners=(listener(*routes, **values),))


def route(name, pool="chat", **values):
    conditions = {key: values.pop(key) for key in tuple(values) if key in Match._fields and key != "headers"}
    return factory.route(name, pool=pool, match=Match(**conditions, headers=values.pop("when", {})), **values)


@pytest.mark.parametrize(
    ("prefix", "path", "fits"),
    [
        ("/gpt", "/gpt", True),
        ("/gpt", "/gpt/x", True),
        ("/gpt", "/gptx", False),
        ("", "/gpt", True),
        ("/gpt/x", "/gpt", False),
    ],
)
def test_a_prefix_covers_whole_segments(prefix: str, path: str, fits: bool) -> None:
    assert covers(prefix, path) is fits


def test_the_most_specific_route_is_asked_first() -> None:
    routes = [
        route("all"),
        route("header", when={"X-Tier": "batch"}),
        route("short", paths=("/gpt",)),
        route("two", paths=("/gpt",), when={"X-Tier": "batch"}, methods=("GET",)),
        route("one", paths=("/gpt",), when={"X-Tier": "batch"}),
        route("long", paths=("/gpt/v1",)),
        route("exact", paths_exact=("/gpt/v1",), methods=("GET",)),
    ]

    def order(path: str, *, exact: bool) -> list[str]:
        return [found.route.name for found in candidates(listener(*routes), Spot(path, exact))]

    assert order("/gpt/v1", exact=True) == ["exact", "long"]
    assert order("/gpt/v1", exact=False) == ["long"]
    assert order("/gpt", exact=False) == ["two", "one", "short"]
    assert order("", exact=False) == ["header", "all"]


def test_equal_routes_go_in_the_order_written() -> None:
    routes = [route("b", when={"X-A": "1"}), route("a", when={"X-B": "1"})]
    assert [found.route.name for found in candidates(listener(*routes), Spot("", exact=False))] == ["b", "a"]


def test_every_proxied_location_has_the_whole_set_of_headers() -> None:
    """Those of an outer level would be dropped: Host would be the upstream's name."""
    routes = [route("own", paths=("/own",), headers=Headers({"X-A": "b"}, ("X-Debug",))), route("all")]
    for match, content in proxied(conf(fleet(*routes, websocket=True))).items():
        if "probe" in match:
            continue
        names = {name for name, *_ in args(content, "proxy_set_header")}
        assert names >= {"Host", "Connection", "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id"}, match
        assert len([1 for name, *_ in args(content, "proxy_set_header") if name == "Connection"]) == 1
        assert args(content, "proxy_buffering") == [["off"]]
        assert args(content, "proxy_http_version") == [["1.1"]]


def test_a_routes_headers_and_timeouts_win() -> None:
    own = route(
        "own", paths=("/own",), headers=Headers({"x-a": "route"}, ("X-B",)), timeouts=Timeouts(idle=1_800_000)
    )
    pools = (factory.pool(headers=Headers({"X-A": "pool", "X-B": "pool"})),)
    content = proxied(conf(factory.fleet(*pools, listeners=(listener(own),))))["/own/"]
    headers = dict(args(content, "proxy_set_header"))
    assert (headers["x-a"], headers["X-B"]) == ("route", "")
    assert args(content, "proxy_read_timeout") == [["30m"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_posts_are_never_replayed_by_default(version: str) -> None:
    for words in args(conf(version=version), "proxy_next_upstream"):
        assert "non_idempotent" not in words


def test_replaying_posts_is_asked_for() -> None:
    retry = model.Retry(2, ("connect", "503"), 5_000, replay_posts=True)
    content = locations(conf(factory.fleet(factory.pool(retry=retry))))["/"]
    assert args(content, "proxy_next_upstream") == [["error", "timeout", "http_503", "non_idempotent"]]
    assert args(content, "proxy_next_upstream_tries") == [["3"]]


def test_no_retries_is_off() -> None:
    content = locations(conf(factory.fleet(factory.pool(retry=model.Retry(0, ("connect",), None, False)))))[
        "/"
    ]
    assert args(content, "proxy_next_upstream") == [["off"]]


def test_errors_of_servers_are_left_alone() -> None:
    for match, content in locations(conf()).items():
        assert "probe" in match or not args(content, "proxy_intercept_errors")


def test_a_header_can_hold_anything() -> None:
    value = 'a $host "q" \\ {};#'
    text = files(factory.fleet(factory.pool(headers=Headers({"X-A": value}))))["nginx.conf"]
    assert "${" not in text
    directives = conf(factory.fleet(factory.pool(headers=Headers({"X-A": value}))))
    literal = next(geo for geo in find(directives, "geo") if geo["args"] == ["$lb_text_1"])
    assert literal["block"][0]["args"][0].replace("\\\\", "\\") == value
    assert ["X-A", "$lb_text_1"] in args(directives, "proxy_set_header")


def test_listeners_on_one_bind_are_told_apart_by_host() -> None:
    two = tuple(
        factory.listener(name, hosts=(f"{name}.org",), tls=TLS, http2=name == "a", accept_proxy=name == "b")
        for name in "ab"
    )
    directives = conf(factory.fleet(listeners=two))
    servers = [block["block"] for block in find(directives, "server") if block.get("block")]
    assert [args(block, "server_name") for block in servers] == [[["a.org"]], [["b.org"]], []]
    lines = [
        [word for word in line if word != "default_server"]
        for block in servers
        for line in args(block, "listen")
    ]
    assert len({tuple(line[1:]) for line in lines}) == 1, "options of one socket must agree"
    assert "default_server" in args(servers[2], "listen")[0]


@pytest.mark.parametrize(("version", "directive", "word"), [("1.22", [], True), ("1.26.3", [["on"]], False)])
def test_http2_in_each_versions_spelling(version: str, directive: list[list[str]], word: bool) -> None:
    directives = conf(factory.fleet(listeners=(factory.listener(tls=TLS),)), version)
    assert args(directives, "http2") == directive
    assert all(("http2" in line) is word for line in args(directives, "listen"))


def test_plain_listeners_of_old_versions_keep_http1() -> None:
    assert not any("http2" in line for line in args(conf(version="1.22"), "listen"))


def test_profiles() -> None:
    modern = conf(factory.fleet(listeners=(factory.listener(tls=TLS._replace(profile="modern")),)))
    assert args(modern, "ssl_protocols") == [["TLSv1.3"]]
    assert not args(modern, "ssl_ciphers")
    assert args(conf(factory.fleet(listeners=(factory.listener(tls=TLS),))), "ssl_protocols") == [
        ["TLSv1.2", "TLSv1.3"]
    ]


def test_the_redirect_leaves_acme_alone() -> None:
    one = factory.listener(tls=TLS, redirect_from=(Address("*", 80),), acme=Acme("chat", None))
    servers = [
        block["block"]
        for block in find(conf(factory.fleet(listeners=(one,))), "server")
        if block.get("block")
    ]
    redirect = locations(servers[1])
    assert args(redirect["/"], "return") == [["308", "https://$host:8080$request_uri"]]
    assert args(redirect["^~ /.well-known/acme-challenge/"], "proxy_pass") == [["http://chat"]]


def keyed(**values):
    auth = Auth(
        ("team-a",),
        "Authorization",
        values.pop("upstream", "strip"),
        None,
        values.pop("except_from", ()),
        True,
    )
    clients = (
        factory.client(keys=(Secret("env", "A_KEY"), Secret("env", "B_KEY")), **values.pop("client", {})),
    )
    return factory.fleet(
        factory.pool(),
        factory.pool("other"),
        listeners=(factory.listener(auth=auth, **values),),
        clients=clients,
    )


def test_keys_are_in_the_secret_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sk-A$1.x")
    monkeypatch.setenv("B_KEY", "sk-b")
    made = files(keyed(upstream=Secret("env", "B_KEY")))
    assert "sk-" not in made["nginx.conf"]
    assert '"~^sk-A[$]1[.]x$" team-a;' in made["secrets/lbgen.conf"]


def test_keys_are_asked_for_where_requests_enter() -> None:
    found = locations(conf(keyed()))
    asked = [condition for [condition] in args(found["/"], "if")]
    assert asked[:2] == ["$lb_malformed", "$lb_denied_default"]
    assert not args(found["= /lb/live"], "if")
    assert not args(found["= /lb/ready"], "if")


@pytest.mark.parametrize(("upstream", "stripped"), [("strip", True), ("pass", False)])
def test_what_the_server_sees_of_the_key(upstream: str, stripped: bool) -> None:
    headers = args(conf(keyed(upstream=upstream)), "proxy_set_header")
    assert (["Authorization", ""] in headers) is stripped
    assert (["X-Api-Key", ""] in headers) is stripped


def test_open_listeners_pass_keys_on() -> None:
    assert not any(name == "Authorization" for name, *_ in args(conf(), "proxy_set_header"))


def test_a_client_with_pools_is_barred_from_others() -> None:
    found = locations(conf(keyed(client={"pools": ("other",)})))
    assert ["$lb_barred_chat"] in args(found["/"], "if")


def test_an_external_service_gets_no_body() -> None:
    auth = Auth(
        (), "Authorization", "strip", ExternalAuth("http://auth:9000/check", ("Authorization",)), (), True
    )
    found = locations(conf(factory.fleet(listeners=(factory.listener(auth=auth),))))
    assert args(found["/"], "auth_request") == [["/.lbgen/auth/default"]]
    asked = found["= /.lbgen/auth/default"]
    assert args(asked, "proxy_pass_request_body") == [["off"]]
    assert ["Authorization", "$http_authorization"] in args(asked, "proxy_set_header")


def test_answers_and_404_are_behind_limits_too() -> None:
    """`return` comes before limits and external authorisation in the same location."""
    limits = (Limit(Rate(1, 1), 0, None, "ip", ()),)
    fixed = route("models", None, paths_exact=("/v1/models",), respond=Respond(200, "{}", "application/json"))
    for match, content in locations(conf(fleet(fixed, limits=limits))).items():
        if args(content, "limit_req"):
            # Refusals may come before: they cost nothing.
            assert not [each for each in content if each["directive"] == "return"], match
            assert args(content, "try_files") or args(content, "proxy_pass"), match


@pytest.mark.parametrize(
    ("rate", "word"),
    [(Rate(10, 1), "10r/s"), (Rate(600, 60), "600r/m"), (Rate(1000, 3600), "16r/m"), (Rate(1, 3600), "1r/m")],
)
def test_rates(rate: Rate, word: str) -> None:
    directives = conf(fleet(limits=(Limit(rate, 5, None, "ip", ()),)))
    assert args(directives, "limit_req_zone")[0][-1] == f"rate={word}"
    assert args(directives, "limit_req")[0][1:] == ["burst=5", "nodelay"]


def test_strip_and_add_work_on_the_line_as_sent() -> None:
    own = route("gpt", paths=("/gpt",), strip_prefix=True, add_prefix="/v1")
    directives = conf(fleet(own))
    content = locations(directives)["/gpt/"]
    assert args(content, "proxy_pass") == [["http://chat$lb_uri_1"]]
    source = next(block for block in find(directives, "map") if block["args"][1] == "$lb_uri_1")
    assert source["args"][0] == "$request_uri"


def test_one_location_a_path() -> None:
    """NGINX refuses doubles; what the balancer answers itself goes first."""
    routes = [
        route("live", paths=("/lb/live", "/.well-known/acme-challenge")),
        route("space", paths_exact=("/a%20b", "/a b")),
    ]
    directives = conf(fleet(*routes, acme=Acme(None, "/var/www")))
    matches = [" ".join(found["args"]).removeprefix("^~ ") for found in find(directives, "location")]
    assert len(matches) == len(set(matches))
    assert args(locations(directives)["= /lb/live"], "return")


def test_split_shares_add_up() -> None:
    shares = factory.route("main", pool=None, split={"chat": 2, "other": 1})
    block = next(find(conf(fleet(shares)), "split_clients"))
    assert [entry["directive"] for entry in block["block"]] == ["66.66%", "*"]


def test_names_that_look_alike_do_not_meet() -> None:
    """Two listeners with a route of one name; a route that is called as if it were part of another."""

    def routes(first: str, second: str):
        shares = factory.route("main", pool=None, split={first: 1, second: 1}, when_down=first, path=("r", 0))
        return (
            shares,
            route("main-to-chat", "third", paths=("/x",)),
            route("main-down", "third", paths=("/y",)),
        )

    pools = [factory.pool(name) for name in ("chat", "other", "third")]
    listeners = (
        factory.listener("a", binds=(Address("*", 1),), routes=routes("chat", "other")),
        factory.listener("b", binds=(Address("*", 2),), routes=routes("third", "other")),
    )
    directives = conf(factory.fleet(*pools, listeners=listeners))
    variables = [block["args"][1] for block in find(directives, "split_clients")]
    assert len(set(variables)) == 2
    for server, first in zip(list(find(directives, "server"))[-2:], ("chat", "third"), strict=True):
        found = locations(server["block"])
        assert args(found[f"@route-main_to_{first}"], "proxy_pass") == [[f"http://{first}"]]
        assert args(found["/x/"], "proxy_pass") == [["http://third"]]


def test_upgrades_are_exactly_websocket() -> None:
    directives = conf(fleet(websocket=True))
    tunnel = next(block for block in find(directives, "map") if block["args"][1] == "$lb_tunnel")
    assert [entry["directive"] for entry in tunnel["block"]] == ["default", "~*^websocket$"]
    found = locations(directives)
    # One of the two stands in the server block, for all that say nothing else.
    block = next(each["block"] for each in find(directives, "server") if "block" in each)
    whole = [each["args"] for each in block if each["directive"] == "proxy_set_header"]
    for name, word in (("@route-default_tunnel", "upgrade"), ("@route-default", "")):
        assert ["Connection", word] in (args(found[name], "proxy_set_header") or whole)
    assert args(found["@route-default_tunnel"], "proxy_read_timeout") == [["1h"]]


def test_headers_with_underscores_are_let_in_when_asked_for() -> None:
    assert args(conf(fleet(route("x", when={"api_key": "1"}))), "underscores_in_headers") == [["on"]]
    assert not args(conf(), "underscores_in_headers")


def test_metrics_are_for_loopback_unless_others_are_allowed() -> None:
    metrics = Metrics((Address("127.0.0.1", 8404),), (), None, None, ("metrics",))
    content = locations(conf(factory.fleet(metrics=metrics)))["@lb-stub-status"]
    assert args(content, "deny") == [["all"]]
    assert args(content, "allow") == [["127.0.0.0/8"], ["::1/128"]]


def test_metrics_ask_for_a_password_and_listeners_for_a_bearer() -> None:
    metrics = Metrics((Address("127.0.0.1", 8404),), (), "u", Secret("env", "P"), ("metrics",))
    closed = listener(auth=Auth((), "Authorization", "strip", None, (), True))
    answers = [
        args(block["block"], "add_header")
        for block in find(conf(factory.fleet(metrics=metrics, listeners=(closed,))), "location")
        if block["args"] == ["@lb-unauthorized"]
    ]
    asked = [words[1] for headers in answers for words in headers if words[0] == "WWW-Authenticate"]
    assert sorted(asked) == ['Basic realm="metrics"', "Bearer"]


@pytest.mark.parametrize("part", ["http", "upstreams"])
def test_parts_have_nothing_of_the_main_level(part: str) -> None:
    text = files(factory.fleet(), part=part)[f"{part}.conf"]
    assert text.startswith("# Generated by lbgen")
    assert not any(word in text for word in ("worker_processes", "events {", "map_hash", "server_tokens"))
    assert ("server {" in text) is (part == "http")


def test_the_same_fleet_gives_the_same_bytes() -> None:
    assert files(keyed(websocket=True)) == files(keyed(websocket=True))


def test_descriptors_cover_the_connections() -> None:
    directives = conf()
    connections = int(args(directives, "worker_connections")[0][0])
    assert int(args(directives, "worker_rlimit_nofile")[0][0]) >= 2 * connections


def test_logs_have_no_query() -> None:
    for line in args(conf(), "log_format"):
        words = " ".join(line)
        assert "$lb_path" in words
        assert not any(
            name in words for name in ("$request ", "$request_uri", "$args", "$http_authorization")
        )
