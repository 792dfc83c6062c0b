"""Values of a fleet file become a fleet, with defaults that fit, and mistakes across values are found."""

from __future__ import annotations

import json

import pytest

from lbgen.model import (
    Acme,
    Admin,
    Auth,
    Balancers,
    ExternalAuth,
    Keepalive,
    Limit,
    Match,
    Respond,
    Secret,
    State,
)
from lbgen.problems import LbgenError
from lbgen.units import Address, Rate
from lbgen.vocabulary import Version
from tests.fleet.reading import SMALL, fleet_of, found, loaded


def servers_of(text: str):
    return fleet_of(f"pools: {{a: {{servers: {text}}}}}").pools[0].servers


def pool_of(text: str):
    return fleet_of(f"pools: {{a: {{servers: ['x:1'], {text}}}}}").pools[0]


def listener_of(text: str, more: str = ""):
    return fleet_of(f"pools: {{a: {{servers: ['x:1']}}}}\nlisteners: {{l: {{{text}}}}}\n{more}").listeners[0]


CLIENTS = "clients: {t: {key: env:T}, u: {keys: [env:U, 'file:/run/u'], priority: 3, pools: a}}"


class TestServers:
    @pytest.mark.parametrize(
        ("text", "names", "addresses"),
        [
            ("['gpu-[0-2]:80']", ["gpu-0", "gpu-1", "gpu-2"], ["gpu-0:80", "gpu-1:80", "gpu-2:80"]),
            ("'gpu-[08-10]:80'", ["gpu-08", "gpu-09", "gpu-10"], ["gpu-08:80", "gpu-09:80", "gpu-10:80"]),
            ("'10.0.0.[7-8]:80'", ["10.0.0.7", "10.0.0.8"], ["10.0.0.7:80", "10.0.0.8:80"]),
            ("'h:[80-81]'", ["h-80", "h-81"], ["h:80", "h:81"]),
            ("['h:80', 'h:81', 'i:80']", ["h-80", "h-81", "i"], ["h:80", "h:81", "i:80"]),
            ("'[fd00::2]:80'", ["fd00--2"], ["[fd00::2]:80"]),
            ("'[::1]:80'", ["1"], ["[::1]:80"]),
            ("{address: 'h-[3-4]:80', name: 'gpu{n}'}", ["gpu3", "gpu4"], ["h-3:80", "h-4:80"]),
            ("[{address: 'h:80', name: 'gpu{n}'}]", ["gpu0"], ["h:80"]),
            (
                "[{address: 'n[1-2]:[80-81]', name: 'g{n}x'}]",
                ["g0x", "g1x", "g2x", "g3x"],
                ["n1:80", "n1:81", "n2:80", "n2:81"],
            ),
        ],
    )
    def test_forms(self, text, names, addresses):
        servers = servers_of(text)
        assert [server.name for server in servers] == names
        assert [str(server.address) for server in servers] == addresses

    @pytest.mark.parametrize(
        ("text", "names", "addresses"),
        [
            (
                "'unix:/run/vllm/[0-1].sock'",
                ["run-vllm-0", "run-vllm-1"],
                ["unix:/run/vllm/0.sock", "unix:/run/vllm/1.sock"],
            ),
            ("{address: 'unix:/run/gpu-[8-9]/http', name: 'g{n}'}", ["g8", "g9"], ["unix:/run/gpu-8/http"]),
            ("['unix:/run/a@b.socket', 'h:80']", ["run-a-b", "h"], ["unix:/run/a@b.socket", "h:80"]),
        ],
    )
    def test_sockets(self, text, names, addresses):
        servers = servers_of(text)
        assert [server.name for server in servers] == names
        assert [str(server.address) for server in servers][: len(addresses)] == addresses
        assert not any(server.address.is_name for server in servers if server.address.is_unix)

    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("unix:run/a.sock", "absolute path"),
            ("/run/a.sock", "no address of a Unix socket"),
            ("unix@/run/a.sock", "no address of a Unix socket"),
            ("unix:/run/../a.sock", "letters, digits"),
            ("unix:/run/a b.sock", "letters, digits"),
            ("unix:/run//a.sock", "letters, digits"),
            ("unix:/run/$a", "letters, digits"),
            (f"unix:/{'a' * 107}", "107 bytes"),
        ],
    )
    def test_what_is_no_socket(self, address, words):
        _, problems = loaded(f"pools: {{a: {{servers: ['{address}']}}}}")
        assert [problem.code for problem in problems] == ["bad-value"]
        assert words in problems[0].message

    @pytest.mark.parametrize(
        ("more", "code"),
        [
            ("health: {path: /, port: 80}", "key-without-effect"),
            ("tls: true", "missing-key"),
            ("tls: {verify: false}", "missing-key"),
            ("host_header: backend", "bad-value"),
            ("strategy: kv_cache", "bad-value"),
        ],
    )
    def test_what_needs_a_host(self, more, code):
        _, problems = loaded(f"pools: {{a: {{servers: ['unix:/run/a.sock'], {more}}}}}")
        assert [problem.code for problem in problems] == [code]

    def test_mapping_reaches_each_server_of_a_range(self):
        text = "[{address: 'h-[0-1]:80', weight: 4, max_in_flight: 8, backup: true, state: drain}, 'x:1']"
        first, second, plain = servers_of(text)
        assert (first.weight, first.max_in_flight, first.backup, first.state) == (4, 8, True, State.DRAIN)
        assert second[2:6] == first[2:6]
        assert (plain.weight, plain.max_in_flight, plain.backup, plain.state) == (1, None, False, State.UP)
        assert [server.path[-1] for server in (first, second, plain)] == [0, 0, 1]

    def test_long_host_names_still_give_good_names(self):
        host = "vllm-0.vllm-headless.inference-production.svc.cluster-eu-1.example.org"
        names = [server.name for server in servers_of(f"['{host}:80', '{host}:81']")]
        assert len(set(names)) == 2
        assert all(len(name) <= 63 for name in names)

    def test_duplicates_name_both_places(self):
        text = "pools:\n  a:\n    servers:\n      - x:1\n      - y:1\n      - {address: 'x:1', name: z}\n"
        _, problems = loaded(text)
        assert [(problem.code, problem.location.line) for problem in problems] == [("duplicate-server", 6)]
        assert "f.yaml:4:9" in problems[0].message

    @pytest.mark.parametrize(
        ("servers", "code"),
        [
            ("[{address: 'x:1', name: n}, {address: 'y:1', name: n}]", "duplicate-name"),
            ("['y:1', {address: 'x:1', name: y}]", "duplicate-name"),
            ("[{address: 'x-[0-2]:1', name: n}]", "duplicate-name"),
            ("['x-[0-3]:1', 'x-2:1']", "duplicate-server"),
            ("[]", "empty-pool"),
        ],
    )
    def test_mistakes(self, servers, code):
        assert [problem[0] for problem in found(f"pools: {{a: {{servers: {servers}}}}}")] == [code]

    def test_an_empty_pool_may_be_meant(self):
        assert fleet_of("pools: {a: {servers: [], allow_empty: true}}").pools[0].servers == ()
        assert fleet_of("pools: {a: {allow_empty: true}}").pools[0].servers == ()

    def test_refused_servers_do_not_also_make_an_empty_pool(self):
        assert [problem[0] for problem in found("pools: {a: {servers: ['x']}}")] == ["bad-value"]
        assert [problem[0] for problem in found("pools: {a: {servers: [{address: 1}]}}")] == ["wrong-type"]
        assert [problem[0] for problem in found("pools: {a: {servers: 5}}")] == ["wrong-type"]


class TestPools:
    def test_defaults(self):
        pool = fleet_of(SMALL).pools[0]
        assert (pool.engine, pool.strategy.name, pool.max_in_flight, pool.warmup) == (
            "openai", "least_conn", None, None,
        )  # fmt: skip
        assert pool.health is not None
        assert pool.health[:6] == (None, 5_000, 5_000, 2, 3, 200)
        assert pool.passive_health == (3, 10_000, 10_000)
        assert pool.retry == (1, ("connect",), 10_000, False)
        assert pool.timeouts == (3_000, 600_000, 600_000, 60_000, 3_600_000)
        assert pool.keepalive == (64, 4_000, 1_000)
        assert pool.queue == (512, 60_000, "fifo")
        assert (pool.tls, pool.discover, pool.protocol, pool.host_header) == (None, None, "http", "client")
        assert pool.dns == ("static", (), 10_000)

    @pytest.mark.parametrize(
        ("engine", "path", "idle"),
        [
            ("vllm", "/health", 4_000),
            ("triton", "/v2/health/ready", 60_000),
            ("ollama", "/", 60_000),
            ("http", None, 4_000),
            ("llama.cpp", "/health", 4_000),
        ],
    )
    def test_the_engine_decides(self, engine, path, idle):
        pool = pool_of(f"engine: {engine}")
        assert pool.health is not None
        assert pool.health.path == path
        assert pool.keepalive is not None
        assert pool.keepalive.idle_timeout == idle

    def test_what_is_switched_off(self):
        pool = pool_of("health: false, passive_health: false, retry: false, keepalive: false, warmup: false")
        assert (pool.health, pool.keepalive, pool.warmup) == (None, None, None)
        assert (pool.passive_health.failures, pool.retry.attempts) == (0, 0)

    def test_health_forms(self):
        assert pool_of("engine: vllm, health: tcp").health.path is None
        assert pool_of("engine: vllm, health: {interval: 9s}").health[:2] == ("/health", 9_000)
        health = pool_of("health: {path: /up?x=1, port: 81, headers: {Authorization: env:KEY}}").health
        assert (health.path, health.port) == ("/up?x=1", 81)
        assert health.headers == {"Authorization": Secret("env", "KEY")}

    def test_partly_written_mappings_keep_the_other_defaults(self):
        pool = pool_of("engine: vllm, keepalive: {idle: 8}, timeouts: {idle: 30m}, queue: {size: 5}")
        assert pool.keepalive == Keepalive(8, 4_000, 1_000)
        assert (pool.timeouts.idle, pool.timeouts.connect) == (1_800_000, 3_000)
        assert pool.queue == (5, 60_000, "fifo")

    @pytest.mark.parametrize(
        ("written", "name", "parameters"),
        [
            ("p2c", "random_two", {}),
            ("least-connections", "least_conn", {}),
            ("session", "session", {"header": "X-Session-Id"}),
            ("{name: sticky, cookie: c}", "session", {"cookie": "c"}),
            ("{name: session, ip: true}", "session", {"ip": True}),
            ("{name: prefix, bytes: 4KiB}", "prefix",
             {"key": "auto", "bytes": 4096, "load_factor": 1.5, "scope": "global"}),
            ("kv_cache", "kv_cache", {"drain_above": 0.95}),
        ],
    )  # fmt: skip
    def test_strategies(self, written, name, parameters):
        strategy = pool_of(f"strategy: {written}").strategy
        assert strategy.name == name
        assert strategy.parameters.items() >= parameters.items()

    @pytest.mark.parametrize(
        "strategy",
        [
            "{name: least_conn, header: X}",
            "{name: session, header: X, cookie: c}",
            "{name: prefix, load_factor: 1}",
            "{header: X}",
            "leest_conn",
        ],
    )
    def test_strategies_refuse_what_is_not_theirs(self, strategy):
        assert len(found(f"pools: {{a: {{servers: ['x:1'], strategy: {strategy}}}}}")) == 1

    def test_tls_forms(self):
        assert pool_of("tls: true").tls == (None, None, True, None, None)
        assert pool_of("tls: false").tls is None
        assert pool_of("tls: {server_name: GPU.internal}").tls == (None, "gpu.internal", True, None, None)

    def test_small_forms(self):
        pool = pool_of(
            "models: m, dns: {mode: runtime, resolver: 10.0.0.1}, headers: {set: {X-A: env:B}, remove: X-B}, "
            "retry: {on: [connect, 503]}"
        )
        assert (pool.models, pool.dns) == (("m",), ("runtime", ("10.0.0.1:53",), 10_000))
        assert pool.headers == ({"X-A": Secret("env", "B")}, ("X-B",))
        assert pool.retry.on == ("connect", "503")

    def test_refused_values_give_way_to_defaults(self):
        fleet, problems = loaded("pools: {a: {servers: ['x:1'], engine: vlm, queue: {size: x}}}")
        assert (fleet.pools[0].engine, fleet.pools[0].queue.size) == ("openai", 512)
        assert len(problems) == 2


class TestDiscovery:
    def test_dns(self):
        pool = fleet_of("pools: {a: {discover: {dns: vllm.svc, port: 8000}}}").pools[0]
        assert (pool.discover, pool.servers) == (("vllm.svc", 8000, 32, None), ())
        assert found("pools: {a: {discover: {dns: vllm.svc}}}") == [("missing-key", 1, 23)]

    def test_file_beside_the_fleet(self, tmp_path):
        groups = [
            {"targets": ["a:80", "[fd00::1]:80"], "labels": {"__weight__": "5"}},
            {"targets": ["b:80"], "labels": {"name": "big", "weight": 9}},
            {"targets": ["c:80"]},
        ]
        (tmp_path / "t.json").write_text(json.dumps(groups))
        text = "pools: {a: {discover: {file: t.json}}}"
        fleet = fleet_of(text, name=str(tmp_path / "fleet.yaml"))
        servers = [(server.name, str(server.address), server.weight) for server in fleet.pools[0].servers]
        assert servers == [
            ("a", "a:80", 5), ("fd00--1", "[fd00::1]:80", 5), ("big", "b:80", 9), ("c", "c:80", 1),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("content", "code"),
        [
            (None, "discover-file"),
            ("[{targets: [a:80]", "discover-file"),
            ("{targets: ['a:80']}", "discover-file"),
            ("[a]", "discover-file"),
            ("[{targets: [a]}]", "discover-file"),
            ("[{targets: ['a:80'], labels: {weight: 999}}]", "discover-file"),
            ("[{targets: ['a:80'], labels: {name: 'a b'}}]", "discover-file"),
            ("[{targets: ['a:80', 'a:80']}]", "duplicate-server"),
            ("[]", "empty-pool"),
        ],
    )
    def test_bad_files(self, tmp_path, content, code):
        if content is not None:
            (tmp_path / "t.yaml").write_text(content)
        text = "pools: {a: {discover: {file: t.yaml}}}"
        _, problems = loaded(text, name=str(tmp_path / "fleet.yaml"))
        assert [problem.code for problem in problems] == [code]
        assert problems[0].location.column == 30


class TestListeners:
    def test_defaults(self):
        fleet = fleet_of(SMALL)
        (listener,) = fleet.listeners
        assert (listener.name, listener.binds, listener.http2) == ("default", (Address("*", 8080),), True)
        assert (listener.max_body, listener.inspect_body) == (64 * 1024**2, 1024**2)
        assert listener.status == ("/lb/live", "/lb/ready", "any_pool")
        assert listener.auth == Auth((), "Authorization", "strip", None, (), required=False)
        assert [(route.name, route.pool, route.match) for route in listener.routes] == [
            ("default", "chat", Match())
        ]

    @pytest.mark.parametrize(
        ("bind", "addresses"),
        [
            ("8080", [Address("*", 8080)]),
            ('"8080"', [Address("*", 8080)]),
            ('":8080"', [Address("*", 8080)]),
            ('"*:8080"', [Address("*", 8080)]),
            ('["0.0.0.0:443", "[::]:443"]', [Address("0.0.0.0", 443), Address("::", 443)]),
        ],
    )
    def test_binds(self, bind, addresses):
        assert list(listener_of(f"bind: {bind}").binds) == addresses

    def test_status_can_be_switched_off(self):
        assert listener_of("status: false").status[:2] == (None, None)
        assert listener_of("status: {live: false}").status[:2] == (None, "/lb/ready")

    def test_auth_forms(self):
        listener = listener_of("auth: {clients: all}", CLIENTS)
        assert listener.auth == Auth(("t", "u"), "Authorization", "strip", None, (), required=True)
        listener = listener_of("auth: {clients: [u], header: x-api-key, upstream: {set: env:E}}", CLIENTS)
        assert listener.auth[:3] == (("u",), "x-api-key", Secret("env", "E"))
        assert not listener_of("auth: none", CLIENTS).auth.required
        external = "auth: {external: {url: 'http://a:9/x', forward: [X-A]}, except: 127.0.0.0/8}"
        auth = listener_of(external, CLIENTS).auth
        assert (auth.external, auth.clients) == (ExternalAuth("http://a:9/x", ("X-A",)), ())
        assert auth.except_from == ("127.0.0.0/8",)

    @pytest.mark.parametrize(
        ("listener", "more", "code"),
        [
            ("", CLIENTS, "listener-without-auth"),
            ("auth: {clients: all}", "", "no-clients"),
            ("auth: {clients: [v]}", CLIENTS, "unknown-client"),
            ("acme: {pool: b}", "", "unknown-pool"),
            ("tls: {certificate: c.pem}", "", "missing-key"),
            ("tls: {bundle: b.pem, key: k.pem}", "", "missing-key"),
            ("redirect_from: 80", "", "key-without-effect"),
            ("auth: none", "clients: {t: {key: env:T, pools: [b]}}", "unknown-pool"),
        ],
    )
    def test_mistakes(self, listener, more, code):
        text = f"pools: {{a: {{servers: ['x:1']}}}}\nlisteners: {{l: {{{listener}}}}}\n{more}"
        assert [problem[0] for problem in found(text)] == [code]

    def test_limits_count_by_what_is_known(self):
        limits = listener_of("limits: {rate: 5/s}").limits
        assert limits == (Limit(Rate(5, 1), 0, None, "ip", ("listeners", "l", "limits")),)
        text = "auth: {clients: all}, limits: [{concurrent: 3, burst: 1}, {rate: 5/s, per: total}]"
        assert [limit[:4] for limit in listener_of(text, CLIENTS).limits] == [
            (None, 1, 3, "client"), (Rate(5, 1), 0, None, "total"),
        ]  # fmt: skip

    def test_the_rest(self):
        listener = listener_of(
            "tls: {directory: certs}, redirect_from: 80, acme: {webroot: /w}, cors: {origins: '*'}, "
            "hosts: [LLM.example.org], trusted_proxies: 10.0.0.1"
        )
        assert listener.tls == (None, None, None, "certs", "intermediate", False, None)
        assert (listener.redirect_from, listener.acme) == ((Address("*", 80),), Acme(None, "/w"))
        assert (listener.cors.origins, listener.hosts) == (("*",), ("llm.example.org",))
        assert listener.trusted_proxies == ("10.0.0.1",)

    def test_clients(self):
        clients = fleet_of(SMALL.replace("chat", "a") + "listeners: {l: {auth: none}}\n" + CLIENTS).clients
        assert clients[0][:7] == ("t", (Secret("env", "T"),), 0, None, 0, None, ())
        assert clients[1][:3] == ("u", (Secret("env", "U"), Secret("file", "/run/u")), 3)
        assert clients[1].pools == ("a",)


TWO = "pools: {a: {servers: ['x:1'], models: [m, n]}, b: {servers: ['y:1']%s}}\n"


class TestRoutes:
    def test_several_pools_are_routed_by_their_models(self):
        routes = fleet_of(TWO % ", models: [o]").listeners[0].routes
        assert [(route.pool, route.match.models) for route in routes[:2]] == [
            ("a", ("m", "n")),
            ("b", ("o",)),
        ]

    def test_a_pool_without_models_needs_a_route(self):
        assert found(TWO % "") == [("unrouted-pool", 1, 48)]
        routes = fleet_of(TWO % ", standby: true").listeners[0].routes
        assert [(route.pool, route.match) for route in routes] == [("a", Match())]

    def test_pools_for_acme_need_no_route(self):
        text = TWO % "" + "listeners: {l: {acme: {pool: b}}}"
        assert [route.pool for route in fleet_of(text).listeners[0].routes] == ["a"]

    @pytest.mark.parametrize(
        ("routes", "names"),
        [
            ("", ["m", "n", "o"]),
            ("{model: 'm*', pool: a}, {pool: b}", ["m", "o"]),
            ("{model: [m, p, 'q*'], pool: a}", ["m", "p"]),
            ("{model: m, pool: a}, {path: /v1, pool: b}", ["m", "o"]),
            ("{model: m, pool: a}, {path_exact: /v1/models, pool: b}", None),
            ("{model: m, pool: a}, {path: /v1/models, pool: b}", None),
            ("{path: /a, pool: a}, {pool: b}", None),
            ("{name: model-list, model: m, pool: a}", ["m"]),
        ],
    )
    def test_models_are_listed_where_they_decide(self, routes, names):
        fleet = fleet_of(TWO % ", models: ['o', 'o-*']" + f"listeners: {{l: {{routes: [{routes}]}}}}")
        lists = [route for route in fleet.listeners[0].routes if route.respond]
        assert len({route.name for route in fleet.listeners[0].routes}) == len(fleet.listeners[0].routes)
        if names is None:
            assert lists == []
        else:
            (route,) = lists
            assert route.match == Match(paths_exact=("/v1/models",))
            answer = json.loads(route.respond.body)
            assert answer["object"] == "list"
            assert [model["id"] for model in answer["data"]] == names
            assert {model["object"] for model in answer["data"]} == {"model"}

    def test_a_client_that_is_kept_to_some_pools_gets_a_list_of_these(self):
        fleet = fleet_of(
            "pools:\n"
            "  a: {models: [m, 'm-*'], servers: ['x:1']}\n"
            "  b: {engine: ollama, models: [o], servers: ['y:1']}\n"
            "clients:\n"
            "  all: {key: env:A}\n"
            "  one: {key: env:B, pools: [a]}\n"
            "  both: {key: env:C, pools: [a, b]}\n"
            "  same: {key: env:D, pools: [a]}\n"
            "  stranger: {key: env:E, pools: [b]}\n"
            "listeners:\n"
            "  l: {auth: {clients: [all, one, both, same]}}\n"
        )
        answers = {route.name: route.respond for route in fleet.listeners[0].routes if route.respond}
        seen = {
            name: [([m["id"] for m in json.loads(body)["data"]], who) for body, who in answer.instead.items()]
            for name, answer in answers.items()
            if name == "model-list"
        }
        assert seen == {"model-list": [(["m"], ("one", "same"))]}
        assert answers["ollama-tags"].instead == {'{"models":[]}': ("one", "same")}
        assert answers["ollama-version"].instead == {}

    def test_a_list_of_models_that_is_too_long_is_left_to_the_pools(self):
        many = ", ".join(f"model-{number:04}" for number in range(200))
        assert len(fleet_of(TWO % f", models: [{many}]").listeners[0].routes) == 2

    def route(self, text: str):
        pools = "pools: {a: {servers: ['x:1']}, b: {servers: ['y:1']}}\n"
        return fleet_of(f"{pools}listeners: {{l: {{routes: [{text}]}}}}").listeners[0].routes[0]

    def test_conditions(self):
        match = self.route(
            "{host: A.org, method: [GET, POST], path: [/a/, /b], header: {X-T: v}, model: 'm*', "
            "prompt_over: 1KiB, prompt_under: 2KiB, max_tokens_over: 5, websocket: true, pool: a}"
        ).match
        assert match == Match(
            hosts=("a.org",),
            methods=("GET", "POST"),
            paths=("/a", "/b"),
            headers={"X-T": "v"},
            models=("m*",),
            prompt_over=1024,
            prompt_under=2048,
            max_tokens_over=5,
            websocket=True,
        )
        assert self.route("{path_exact: /a/, pool: a}").match == Match(paths_exact=("/a/",))
        assert self.route("{path: /, pool: a}").match.paths == ("/",)

    def test_actions(self):
        assert self.route("{split: {a: 95, b: 5}, by: {header: X-U}, when_down: a}")[2:6] == (
            None, {"a": 95, "b": 5}, "header:X-U", "a",
        )  # fmt: skip
        route = self.route(
            "{name: r, path: /a, pool: a, strip_prefix: true, add_prefix: /v1/,"
            " priority: 0, timeouts: {idle: 9}}"
        )
        assert (route.name, route.strip_prefix, route.add_prefix, route.priority) == ("r", True, "/v1", 0)
        assert (route.timeouts.idle, route.timeouts.connect) == (9_000, None)

    def test_responses(self):
        assert self.route("{respond: {json: {a: [é]}}}").respond == Respond(
            200, '{"a":["\\u00e9"]}', "application/json"
        )
        assert self.route("{respond: {json: null}}").respond == Respond(200, "null", "application/json")
        assert self.route("{respond: {status: 204, body: ''}}").respond == Respond(204, "", "text/plain")
        assert self.route("{respond: {status: 404}}").respond == Respond(404, "", "text/plain")
        assert self.route("{respond: {body: x, content_type: text/html}}").respond[1:3] == ("x", "text/html")

    @pytest.mark.parametrize(
        ("route", "code"),
        [
            ("{pool: c}", "unknown-pool"),
            ("{pool: a, when_down: c}", "unknown-pool"),
            ("{split: {a: 1, c: 1}}", "unknown-pool"),
            ("{split: {a: 0, b: 0}}", "split-of-nothing"),
            ("{pool: a, by: client}", "key-without-effect"),
            ("{respond: {status: 200}, when_down: a}", "key-without-effect"),
            ("{pool: a, strip_prefix: true}", "missing-key"),
            ("{path: /a}", "missing-key"),
            (f"{{respond: {{json: [{'abcdefgh, ' * 900}]}}}}", "bad-value"),
            ("{respond: {status: 204, body: x}}", "bad-value"),
            ("{respond: {status: 304, json: null}}", "bad-value"),
            ("{pool: a, response_headers: {set: {Host: x}}}", "bad-value"),
            ("{pool: a, response_headers: {remove: host}}", "bad-value"),
            ("{pool: a, respond: {status: 200}}", "conflicting-keys"),
            ("{path: /a, path_exact: /a, pool: a}", "conflicting-keys"),
            ("{name: n, pool: a, path: /a}, {name: n, pool: a}", "duplicate-name"),
            ("{pool: a, path: a}", "bad-value"),
            ("{pool: a, path: '/a b'}", "bad-value"),
            ("{pool: a, path: '/a\"b'}", "bad-value"),
            ("{pool: a, model: 'a b'}", "bad-value"),
            ("{pool: a, host: 'a b'}", "bad-value"),
        ],
    )
    def test_mistakes(self, route, code):
        pools = "pools: {a: {servers: ['x:1']}, b: {servers: ['y:1']}}\n"
        text = f"{pools}listeners: {{l: {{routes: [{route}]}}}}"
        assert [problem[0] for problem in found(text)] == [code]

    def test_problems_point_at_the_name_that_is_wrong(self):
        text = "pools: {a: {servers: ['x:1']}}\nlisteners: {l: {routes: [{split: {a: 1, cc: 1}}]}}"
        assert found(text) == [("unknown-pool", 2, 41)]


class TestSettings:
    def test_balancers(self):
        assert fleet_of(SMALL).balancers == Balancers(1, {})
        assert fleet_of(SMALL + "balancers: 3").balancers == Balancers(3, {})
        peers = {"lb-0": Address("10.0.0.1", 10000), "lb-1": Address("10.0.0.2", 10000)}
        text = 'balancers: {%s peers: {lb-0: "10.0.0.1:10000", lb-1: "10.0.0.2:10000"}}'
        assert fleet_of(SMALL + text % "").balancers == Balancers(2, peers)
        assert fleet_of(SMALL + text % "count: 2,").balancers == Balancers(2, peers)
        assert found(SMALL + text % "count: 3,") == [("balancers-mismatch", 2, 20)]

    def test_metrics(self):
        assert fleet_of(SMALL).metrics is None
        metrics = fleet_of(
            SMALL + "metrics: {bind: 127.0.0.1:8404, allow: [10.0.0.0/8], auth: {user: u, password: env:P}}"
        ).metrics
        assert metrics is not None
        assert metrics[:4] == ((Address("127.0.0.1", 8404),), ("10.0.0.0/8",), "u", Secret("env", "P"))

    def test_logs(self):
        assert fleet_of(SMALL).logs == ("stdout", "json", "info", {})
        assert fleet_of(SMALL + "logs: {to: 'syslog:10.0.0.1', level: warn}").logs == (
            "syslog:10.0.0.1:514", "json", "warning", {},
        )  # fmt: skip
        assert found(SMALL + "logs: {to: access.log}") == [("bad-value", 2, 12)]

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("modle", "'model'"),
            ("Model", "'model'"),
            ("models", "'model'"),
            ("max-tokens", "'max_tokens'"),
            ("client_adress", "'client_address'"),
            ("prompt_tokens", "'prompt_bytes'"),
            ("decison", "'decision'"),
            ("headers:X-App", "'header:X-App'"),
            ("Header: X-App", "'header:X-App'"),
            ("pool", "every line"),
        ],
    )
    def test_a_mistyped_source_of_a_log_field_is_no_text(self, written, meant):
        _, (problem,) = loaded(SMALL + f"logs: {{fields: {{app: '{written}'}}}}")
        assert (problem.code, problem.location.line, problem.location.column) == ("bad-value", 2, 22)
        assert meant in problem.message

    @pytest.mark.parametrize(
        "text", ["eu-1", "model-a", "prod", "mode 2", "team:chat", "http://a:80", "gpt-4o"]
    )
    def test_a_text_of_a_log_field_stays_one(self, text):
        assert fleet_of(SMALL + f"logs: {{fields: {{app: '{text}'}}}}").logs.fields == {"app": text}

    def test_targets_are_all_or_those_named(self):
        nginx, haproxy = fleet_of(SMALL).targets
        assert (nginx.name, nginx.version, nginx.directory) == ("nginx", Version(1, 22), "/etc/nginx")
        assert (haproxy.name, haproxy.version, haproxy.directory) == (
            "haproxy",
            Version(2, 6),
            "/etc/haproxy",
        )
        assert nginx.drain_timeout == 900_000
        text = (
            SMALL + 'targets: {haproxy: {version: "3.0", threads: auto, raw: {global: a, backend: [b, c]}}}'
        )
        (haproxy,) = fleet_of(text).targets
        assert (haproxy.version, haproxy.own.threads) == (Version(3, 0), None)
        assert haproxy.raw["global"] == ("a",)
        assert haproxy.raw["backend"] == ("b", "c")

    def test_targets_and_versions_from_outside_win(self):
        text = SMALL + 'targets: {nginx: {version: "1.26", workers: 4, modules: njs}}'
        nginx, haproxy = fleet_of(text, requested=["nginx", "haproxy"], versions={"nginx": "1.30"}).targets
        assert (nginx.version, nginx.own.workers, nginx.own.modules) == (Version(1, 30), 4, ("njs",))
        assert haproxy.version == Version(2, 6)
        for options in ({"requested": ["apache"]}, {"versions": {"nginx": "new"}}):
            with pytest.raises(LbgenError):
                loaded(text, **options)

    def test_name(self):
        assert fleet_of(SMALL, name="/etc/lb/prod-eu.yaml").name == "prod-eu"
        assert fleet_of(SMALL, name="<stdin>").name == "fleet"
        assert fleet_of(SMALL + "name: mine").name == "mine"

    def test_digest_changes_with_values_only(self):
        first = fleet_of(SMALL).digest
        assert len(first) == 12
        assert fleet_of("# a comment\npools:\n  chat:\n    servers: ['gpu-0:8000']\n").digest == first
        assert fleet_of(SMALL.replace("8000", "8001")).digest != first
        assert fleet_of(SMALL + "balancers: 1").digest == first, "a default"
        assert fleet_of(SMALL + "balancers: 2").digest != first
        assert fleet_of(SMALL + "targets: {nginx: {connections: 64}}").digest != first


def test_a_fleet_is_built_from_whatever_is_left():
    fleet, problems = loaded(
        "pools: [x]\nlisteners: {l: 5, m: {bind: x}}\nclients: 3\ntargets: 4\nmetrics: 5"
    )
    assert [problem.location.line for problem in problems] == [1, 2, 2, 3, 4, 5]
    assert (fleet.pools, [listener.name for listener in fleet.listeners]) == ((), ["m"])


class TestAdmin:
    """Who may call an engine's admin paths."""

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("engine: vllm", Admin()),
            ("engine: vllm, admin: refuse", Admin()),
            ("engine: vllm, admin: pass", Admin(open=True)),
            ("engine: openai", Admin(open=True)),
            (
                "engine: ollama, admin: {clients: [ops, 10.0.0.0/8, 10.9.9.9, '2001:db8::/32']}",
                Admin(clients=("ops",), networks=("10.0.0.0/8", "10.9.9.9", "2001:db8::/32")),
            ),
        ],
    )
    def test_who_may(self, written: str, expected: Admin) -> None:
        text = f"pools: {{p: {{servers: ['a:1'], {written}}}}}\nclients: {{ops: {{key: env:K}}}}\n"
        assert fleet_of(text + "listeners: {l: {auth: {clients: all}}}").pools[0].admin == expected

    @pytest.mark.parametrize(
        ("written", "code"),
        [
            ("engine: vllm, admin: {clients: [nobody]}", "unknown-client"),
            ("engine: vllm, admin: {clients: ['10.0.0.1/8']}", "bad-value"),
            ("engine: vllm, admin: {clients: ['a b']}", "bad-value"),
            ("engine: tei, admin: refuse", "key-without-effect"),
            ("admin: {clients: [10.0.0.0/8]}", "key-without-effect"),
        ],
    )
    def test_what_cannot_be(self, written: str, code: str) -> None:
        _, problems = loaded(f"pools: {{p: {{servers: ['a:1'], {written}}}}}")
        assert code in [problem.code for problem in problems]


def test_a_check_has_the_pools_host() -> None:
    text = "pools:\n  a:\n    servers: ['x:1']\n    health: {headers: {Host: x}}\n"
    (problem,) = loaded(text)[1]
    assert (problem.code, problem.location[1:]) == ("bad-value", (4, 24))
    assert "host_header" in problem.message


@pytest.mark.parametrize(
    ("status", "places"),
    [
        ("{live: /same, ready: /same}", [("bad-value", 2, 46)]),
        ("{live: /lb/ready}", [("bad-value", 2, 32)]),
        ("{live: /a, ready: /b}", []),
        ("{live: false, ready: false}", []),
    ],
)
def test_two_probes_have_two_paths(status: str, places: list[tuple[str, int, int]]) -> None:
    assert found(f"{SMALL}listeners: {{l: {{status: {status}}}}}\n") == places
