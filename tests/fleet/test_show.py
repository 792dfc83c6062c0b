"""What is shown is the same fleet again, says where each value is from, and gives no secret away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from lbgen.fields import Struct
from lbgen.fleet.load import load
from lbgen.fleet.schema import FLEET
from lbgen.fleet.text.source import Source
from lbgen.fleet.written.show import as_json, as_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "tests").glob("golden/*/fleet.yaml")])

LARGE = """
version: 1
name: prod-eu
balancers: {count: 2, peers: {lb-0: "10.0.0.1:10000", lb-1: "10.0.0.2:10000"}}
pools:
  llama-70b:
    engine: vllm
    models: [meta-llama/Llama-3.3-70B-Instruct, "llama-70b*"]
    strategy: {name: prefix, load_factor: 1.5, key: first_bytes, bytes: 4KiB, scope: client}
    servers:
      - gpu-[0-3]:8000
      - {address: "10.0.0.7:8000", name: big, weight: 4, max_in_flight: 128}
      - {address: "[fd00::2]:8000", backup: true}
      - {address: "h[00-03]:[8000-8001]", name: "r{n}", state: drain}
    max_in_flight: 32
    queue: {size: 100, timeout: 1500ms, order: shortest_first}
    health:
      {path: "/health?a=1", interval: 2s, timeout: 1s, rise: 1, fall: 9,
         expect: 204, port: 8, headers: {A: env:K}}
    passive_health: {failures: 5, window: 20s, eject: 30s}
    warmup: 30s
    retry: {attempts: 2, on: [connect, 503], within: 5s, replay_posts: true}
    timeouts: {connect: 1s, first_byte: 20m, idle: 20m, send: 30s, tunnel: 2h}
    keepalive: {idle: 9, idle_timeout: 3s, requests: 7}
    tls: {ca: /etc/ca.pem, server_name: gpu.internal, verify: false, certificate: c.pem, key: k.pem}
    protocol: http
    host_header: backend
    headers: {set: {X-Pool: "a: b, $${c} $$$$ 'q' \\"d\\" # x"}, remove: [X-Debug]}
    dns: {mode: runtime, resolver: ["10.0.0.10:53"], valid: 30s}
  canary:
    servers: "c-[1-2]:8000"
    health: tcp
    keepalive: false
    retry: false
    passive_health: false
    strategy: {name: session, cookie: sid}
  tei: {engine: tei, servers: [t:80], health: false, tls: true, strategy: {name: session, ip: true}}
  found: {discover: {dns: vllm.svc, port: 8000, max: 9}, strategy: round_robin, engine: sglang, health: tcp}
  none: {servers: [], allow_empty: true, standby: true, host_header: on, strategy: random_two}
  acme: {engine: http, servers: [a:1, a:2], standby: true}
listeners:
  public:
    bind: ["0.0.0.0:443", "[::]:443", 8443]
    hosts: [llm.example.org]
    tls: {certificate: fullchain.pem, key: privkey.pem, profile: modern, hsts: true, client_ca: ca.pem}
    redirect_from: 80
    acme: {pool: acme}
    http2: false
    max_body: 10MB
    inspect: {body: 128KiB}
    behind_proxy: true
    trusted_proxies: [10.0.0.0/8]
    accept_proxy: true
    auth: {clients: [team-a], header: x-api-key, upstream: {set: env:E}, except: [127.0.0.0/8]}
    limits: [{rate: 600/m, burst: 50, per: client}, {concurrent: 9, per: ip}]
    cors: {origins: ["https://chat.example.org"]}
    websocket: true
    routes:
      - {path: [/v1/embeddings, /e/], pool: tei, method: POST, name: "007"}
      - {path: /gpt, strip_prefix: true, add_prefix: /v1, pool: llama-70b, timeouts: {idle: 30m}}
      - {path: /h, pool: llama-70b, headers: {set: {X-A: b}}}
      - {model: "llama-70b*", pool: llama-70b, when_down: canary, priority: 0}
      - {header: {X-Tier: batch}, host: a.example.org, pool: canary, priority: 9}
      - {prompt_over: 32KiB, prompt_under: 1MiB, max_tokens_over: 5, websocket: true, pool: found}
      - {path_exact: /v1/models, respond: {status: 200, json: {object: list, data: [null, 1.5, true, "é$"]}}}
      - {path_exact: /x, respond: {status: 404, body: "{\\"a\\": 1}", content_type: application/json}}
      - {path_exact: /y, respond: {body: gone}}
      - {name: main, split: {llama-70b: 95, canary: 5}, by: {header: X-User}, when_down: llama-70b}
    status: {live: false, ready: /r, when: all_pools}
  inner: {bind: "127.0.0.1:9000", auth: none, status: false, routes: [{pool: canary}]}
  asked: {bind: 81, auth: {external: {url: "http://a:9/c"}, upstream: pass}, routes: [{pool: canary}]}
clients:
  team-a: {key: env:TEAM_A_KEY, priority: 0, rate: 600/m, burst: 60, max_in_flight: 20, pools: [llama-70b]}
  batch: {keys: [env:BATCH, "file:/run/key"], priority: 9}
metrics: {bind: "127.0.0.1:8404", allow: [10.0.0.0/8], auth: {user: u, password: env:P}}
logs: {to: "syslog:10.0.0.5:514", format: combined, level: warning}
targets:
  nginx:
    {version: "1.26", workers: 4, user: www, modules: [njs], without: [health],
      raw: {http: ["a 'b' \\\\ $$x;"]}}
  haproxy: {version: "3.0", threads: 2, max_connections: 500, runtime_socket: /run/s, drain_timeout: 1h}
"""


def loaded(name: str, text: str):
    result = load([Source(name, text)], environ={})
    assert result.fleet is not None, result.problems
    return result


def without_places(value):
    """The fleet but for what differs by nature: paths, origins, digest."""
    if hasattr(value, "_asdict"):
        return {
            key: without_places(item)
            for key, item in value._asdict().items()
            if key not in ("path", "origins", "digest")
        }
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items()}
    return [without_places(item) for item in value] if isinstance(value, list | tuple) else value


def texts():
    yield pytest.param(LARGE, id="large")
    yield pytest.param(
        "pools: {a: {servers: [x:1], models: m}, b: {servers: [y:1], models: [n, 'o*']}}", id="models"
    )
    for path in FILES:
        yield pytest.param(path.read_text(), id=f"{path.parent.name}/{path.stem}")


@pytest.mark.parametrize("text", [*texts()])
def test_what_is_shown_is_the_same_fleet(text) -> None:
    first = loaded("f.yaml", text)
    shown = as_yaml(first.fleet, first.document)
    again = loaded("f.yaml", shown)
    assert without_places(again.fleet) == without_places(first.fleet)
    assert again.fleet.digest == first.fleet.digest
    assert yaml.safe_load(shown.replace("$$", "$")) is not None


@pytest.mark.parametrize("text", [*texts()])
def test_keys_stand_in_the_order_of_the_field_table(text) -> None:
    first = loaded("f.yaml", text)
    shown = json.loads(as_json(first.fleet, first.document))["fleet"]

    def check(values, struct: Struct) -> None:
        names = [field.name for field in struct.fields]
        assert list(values) == [name for name in names if name in values]

    check(shown, FLEET)
    for key in ("pools", "listeners", "clients"):
        kind = FLEET.by_name[key].kind.kind
        for values in shown.get(key, {}).values():
            check(values, kind)
            for name, value in values.items():
                inner = kind.by_name[name].kind
                inner = getattr(inner, "mapping", None) or getattr(inner, "kind", inner)
                inner = getattr(inner, "mapping", None) or inner
                if isinstance(inner, Struct):
                    for entry in value if isinstance(value, list) else [value]:
                        if isinstance(entry, dict):
                            check(entry, inner)


def test_each_value_tells_where_it_is_from() -> None:
    base = "pools:\n  chat:\n    engine: vllm\n    servers: [a:1, {address: b:1, weight: 2}]\n"
    base += "    strategy: prefix\n"
    over = "pools: {chat: {queue: {size: 9}}}\ntargets: {nginx: {}}\n"
    result = load(
        [Source("base.yaml", base), Source("prod.yaml", over)],
        sets=["pools.chat.max_in_flight=3"],
        versions={"nginx": "1.26"},
        environ={},
    )
    report = json.loads(as_json(result.fleet, result.document))
    expected = {
        "pools.chat.engine": "base.yaml:3",
        "pools.chat.strategy.name": "base.yaml:5",
        "pools.chat.strategy.load_factor": "default",
        "pools.chat.servers[0].address": "base.yaml:4",
        "pools.chat.servers[0].weight": "default",
        "pools.chat.servers[1].weight": "base.yaml:4",
        "pools.chat.queue.size": "prod.yaml:1",
        "pools.chat.queue.timeout": "default",
        "pools.chat.max_in_flight": "--set pools.chat.max_in_flight",
        "pools.chat.health.path": "engine vllm",
        "pools.chat.keepalive.idle_timeout": "engine vllm",
        "targets.nginx.version": "--target-version",
        "listeners.default.bind": "default",
    }
    assert {path: report["origins"][path] for path in expected} == expected
    shown = as_yaml(result.fleet, result.document)
    assert re_line(shown, "max_in_flight: 3") == "--set pools.chat.max_in_flight"
    assert re_line(shown, "size: 9") == "prod.yaml:1"
    assert re_line(shown, "path: /health") == "engine vllm"


def re_line(text: str, part: str) -> str:
    (line,) = [line for line in text.split("\n") if part in line]
    return line.partition("  # ")[2]


def test_every_line_with_a_value_has_an_origin() -> None:
    result = loaded("f.yaml", LARGE)
    for line in as_yaml(result.fleet, result.document).split("\n")[1:-1]:
        assert line.endswith(":") or "  # " in line, line


def test_secrets_stay_references() -> None:
    result = load(
        [Source("f.yaml", LARGE)], environ={"TEAM_A_KEY": "sk-hunter2", "K": "hunter2", "P": "hunter2"}
    )
    for text in (as_yaml(result.fleet, result.document), as_json(result.fleet, result.document)):
        assert "hunter2" not in text
        assert "env:TEAM_A_KEY" in text
