"""When the rendered rules say something, and when not: `promtool test rules` with series made by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.manifests.promtool import promtool

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """
name: site
pools:
  chat:
    engine: vllm
    strategy: kv_cache
    max_in_flight: 8
    queue: {size: 64}
    servers: [{address: "gpu-0:8000", name: a}, {address: "gpu-1:8000", name: b}]
listeners:
  public: {bind: "127.0.0.1:8443", tls: {bundle: /etc/ssl/llm.pem}, auth: none}
metrics: {bind: "127.0.0.1:8404"}
"""
LENGTH = 120
"""Samples of each series, ten seconds apart."""
FOREVER = f"x{LENGTH}"


def series(name: str, **labels: str) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in {"fleet": "site", **labels}.items())
    return f"{name}{{{inside}}}"


def server(name: str, letter: str, **labels: str) -> str:
    return series(f"haproxy_server_{name}", pool="chat", server=letter, **labels)


def backend(name: str, **labels: str) -> str:
    return series(f"haproxy_backend_{name}", pool="chat", **labels)


def bucket(bound: str) -> str:
    return series("vllm:time_to_first_token_seconds_bucket", pool="chat", server="a", le=bound)


UP = {
    role: series("up", role=role, instance="x", **more)
    for role, more in {
        "balancer": {}, "agent": {},
        "a": {"pool": "chat", "server": "a"}, "b": {"pool": "chat", "server": "b"},
    }.items()
}  # fmt: skip
UP |= {letter: UP[letter].replace(f'role="{letter}"', 'role="engine"') for letter in "ab"}
CERTIFICATE = series("probe_ssl_earliest_cert_expiry", listener="public", instance="y")
AGE = series("lbgen_agent_reading_age_seconds", pool="chat", server="a", instance="x")
DAY = 86_400

HEALTHY = {
    **dict.fromkeys(UP.values(), f"1{FOREVER}"),
    **{server("current_sessions", letter): f"2{FOREVER}" for letter in "ab"},
    **{server("limit_sessions", letter): f"8{FOREVER}" for letter in "ab"},
    **{server("uweight", letter): f"1{FOREVER}" for letter in "ab"},
    **{
        server("status", letter, state=state): f"{int(state == 'UP')}{FOREVER}"
        for letter in "ab"
        for state in ("UP", "DOWN", "DRAIN", "MAINT")
    },
    **{server("current_queue", letter): f"0{FOREVER}" for letter in "ab"},
    backend("current_queue"): f"0{FOREVER}",
    backend("active_servers"): f"2{FOREVER}",
    backend("backup_servers"): f"0{FOREVER}",
    backend("http_responses_total", code="2xx"): f"0+20{FOREVER}",
    backend("http_responses_total", code="5xx"): f"0{FOREVER}",
    bucket("1"): f"0+10{FOREVER}",
    bucket("20"): f"0+10{FOREVER}",
    bucket("+Inf"): f"0+10{FOREVER}",
    CERTIFICATE: f"{30 * DAY}{FOREVER}",
    AGE: f"1{FOREVER}",
}
OUT = {server("status", "a", state="UP"): f"0{FOREVER}", server("status", "a", state="DOWN"): f"1{FOREVER}"}
DRAINED_FIRST = {
    server("status", "a", state="UP"): f"0{FOREVER}",
    server("status", "a", state="DRAIN"): "1x30 0x90",
    server("status", "a", state="DOWN"): "0x30 1x90",
}
OF_CHAT = {"fleet": "site", "pool": "chat"}


def said(name: str, severity: str = "warning", **labels: str) -> str:
    """Return an alert as Prometheus shows it."""
    inside = {"alertname": name, "alertstate": "firing", "severity": severity, "fleet": "site", **labels}
    return "ALERTS{" + ",".join(f'{key}="{value}"' for key, value in inside.items()) + "}"


NEARLY_FULL = said("QueueNearlyFull", "critical", pool="chat")
GROWS = said("QueueGrows", pool="chat")
LATE = said("FirstTokensLate", pool="chat", quantile="0.95")
SERVER_OUT = said("ServerOut", pool="chat", server="a")
ENDS = {
    severity: said("CertificateNearItsEnd", severity, listener="public", instance="y")
    for severity in ("warning", "critical")
}
WHEN = {
    "all is well": ({}, {"15m": []}),
    "a server is out": (OUT, {"30s": [], "3m": [SERVER_OUT]}),
    "a server was drained before it went": (DRAINED_FIRST, {"15m": []}),
    "a server of weight 0 is out": (OUT | {server("uweight", "a"): f"0{FOREVER}"}, {"15m": []}),
    "nobody is at home": (
        {backend("active_servers"): f"0{FOREVER}"},
        {"0s": [], "2m": [said("NobodyAtHome", "critical", pool="chat")]},
    ),
    "the backup is at home": (
        {backend("active_servers"): f"0{FOREVER}", backend("backup_servers"): f"1{FOREVER}"}, {"5m": []},
    ),
    "the queue grows": (
        {backend("current_queue"): f"1+1{FOREVER}"}, {"4m": [], "9m": [GROWS], "15m": [GROWS, NEARLY_FULL]},
    ),
    "the queues of two servers grow": (
        {server("current_queue", letter): f"1+0.5{FOREVER}" for letter in "ab"}, {"9m": [GROWS]},
    ),
    "the queue shrinks": ({backend("current_queue"): f"55-0.4{FOREVER}"}, {"4m": [], "9m": [], "15m": []}),
    "the queue is empty now and then": ({backend("current_queue"): "0 9 0 " + "5 9 0 " * 30}, {"9m": []}),
    "first tokens are late": (
        {bucket("1"): f"0+9{FOREVER}"}, {"4m": [], "15m": [LATE]},
    ),
    "one first token in fifty is late": ({bucket("1"): f"0+9.8{FOREVER}"}, {"15m": []}),
    "requests fail": (
        {backend("http_responses_total", code="5xx"): f"0+1{FOREVER}"},
        {"15m": [said("RequestsFail", pool="chat")]},
    ),
    "a request in a thousand fails": (
        {backend("http_responses_total", code="5xx"): f"0+0.02{FOREVER}"}, {"15m": []},
    ),
    "a pool is at its caps": (
        {server("current_sessions", letter): f"8{FOREVER}" for letter in "ab"},
        {"5m": [], "15m": [said("PoolNearlyFull", pool="chat")]},
    ),
    "a balancer is silent": (
        {UP["balancer"]: f"0{FOREVER}"},
        {"5m": [said("BalancerNotRead", "critical", role="balancer", instance="x")]},
    ),
    "an engine serves and is not read": (
        {UP["a"]: f"0{FOREVER}"},
        {"2m": [], "9m": [
            said("EngineNotRead", "info", role="engine", instance="x", pool="chat", server="a"),
        ]},
    ),
    "an engine is out and not read": (OUT | {UP["a"]: f"0{FOREVER}"}, {"9m": [SERVER_OUT]}),
    "the agent is silent": (
        {UP["agent"]: f"0{FOREVER}"}, {"5m": [said("AgentReadsNothing", role="agent", instance="x")]},
    ),
    "the agent cannot read": (
        {AGE: f"0+10{FOREVER}"},
        {"9m": [said("AgentReadsNothing", pool="chat", server="a", instance="x")]},
    ),
    "a certificate ends in ten days": ({CERTIFICATE: f"{10 * DAY}{FOREVER}"}, {"15m": [ENDS["warning"]]}),
    "a certificate ends in a day": ({CERTIFICATE: f"{DAY}{FOREVER}"}, {"15m": [*ENDS.values()]}),
}  # fmt: skip


def check(folder: Path, given: dict[str, str], expected: dict[str, list[str]]) -> None:
    """Let promtool compare all alerts that fire at some times."""
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "10s",
        "tests": [
            {
                "interval": "10s",
                "input_series": [{"series": name, "values": values} for name, values in given.items()],
                "promql_expr_test": [
                    {
                        "expr": 'ALERTS{alertstate="firing"}',
                        "eval_time": time,
                        "exp_samples": [{"labels": name, "value": 1} for name in names],
                    }
                    for time, names in expected.items()
                ],
            }
        ],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", folder / "test.yml")


@pytest.fixture
def rules(lbgen, tmp_path):
    """A function that renders the rules for a target, and returns their folder."""

    def made(target: str, text: str = FLEET, *words: str) -> Path:
        (tmp_path / "fleet.yaml").write_text(text)
        ended = lbgen("render", "fleet.yaml", "-t", target, "--as", "prometheus", "-o", "out", *words)
        assert ended.code == 0, ended.err
        return tmp_path / "out" / target / "prometheus"

    return made


@pytest.mark.parametrize("case", WHEN)
def test_haproxy_alerts(rules, case):
    changed, expected = WHEN[case]
    check(rules("haproxy"), HEALTHY | changed, expected)


def test_another_fleet_beside_it_changes_nothing(rules):
    other = {
        name.replace('fleet="site"', 'fleet="other"'): values
        for name, values in (HEALTHY | OUT | WHEN["the queue grows"][0]).items()
    }
    check(rules("haproxy"), HEALTHY | other, {"15m": []})


def test_how_late_first_tokens_may_be(rules):
    folder = rules("haproxy", FLEET, "--first-token", "500ms")
    check(folder, HEALTHY, {"15m": [LATE]})
    check(
        rules("haproxy", FLEET, "--first-token", "30s"),
        HEALTHY | WHEN["first tokens are late"][0],
        {"15m": []},
    )


NGINX_FLEET = FLEET.replace("strategy: kv_cache", "strategy: least_conn").replace("queue: {size: 64}", "")
RUNNING = {
    series(f"vllm:num_requests_{what}", pool="chat", server=letter): f"{count}{FOREVER}"
    for letter in "ab"
    for what, count in (("running", 2), ("waiting", 0))
}
NGINX_HEALTHY = {
    **{UP[role]: f"1{FOREVER}" for role in ("balancer", "a", "b")},
    **RUNNING,
    series("nginx_connections_active", instance="x"): f"3{FOREVER}",
}
WAITS = series("vllm:num_requests_waiting", pool="chat", server="a")
NGINX_WHEN = {
    "all is well": ({}, {"15m": []}),
    "an engine is silent": ({UP["a"]: f"0{FOREVER}"}, {"3m": [SERVER_OUT]}),
    "all engines are silent": (
        {UP[letter]: f"0{FOREVER}" for letter in "ab"},
        {"3m": [
            SERVER_OUT, SERVER_OUT.replace('server="a"', 'server="b"'),
            said("NobodyAtHome", "critical", pool="chat"),
        ]},
    ),
    "an engine's queue grows": ({WAITS: f"1+0.01{FOREVER}"}, {"9m": [GROWS]}),
    "a pool is at its caps": (
        {name: f"8{FOREVER}" for name in RUNNING if "running" in name},
        {"15m": [said("PoolNearlyFull", pool="chat")]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NGINX_WHEN)
def test_nginx_alerts_by_what_the_engines_tell(rules, case):
    changed, expected = NGINX_WHEN[case]
    check(rules("nginx", NGINX_FLEET), NGINX_HEALTHY | changed, expected)


def test_an_alert_says_what_to_do(rules):
    folder = rules("haproxy")
    [group] = [
        one for one in yaml.safe_load((folder / "rules.yml").read_text())["groups"] if "alerts" in one["name"]
    ]
    for rule in group["rules"]:
        assert rule["annotations"]["summary"], json.dumps(rule)
        assert rule["annotations"]["description"], json.dumps(rule)
    text = (folder / "rules.yml").read_text()
    assert "{{ $value }} requests wait for chat, of queue.size 64" in text


def of_envoy(name: str, **labels: str) -> str:
    return series(f"envoy_cluster_{name}", pool="chat", instance="x", **labels)


ENVOY_FLEET = NGINX_FLEET.replace("gpu-0:8000", "10.0.0.1:8000").replace("gpu-1:8000", "10.0.0.2:8000")
IN_THE_FILE = ENVOY_FLEET.replace("name: a}", "name: a, state: drain}")
UNHEALTHY = {letter: {of_envoy("endpoint_healthy", server=letter): f"0{FOREVER}"} for letter in "ab"}
ENVOY_HEALTHY = {
    **{UP[role]: f"1{FOREVER}" for role in ("balancer", "a", "b")},
    **{of_envoy("endpoint_healthy", server=letter): f"1{FOREVER}" for letter in "ab"},
    of_envoy("membership_healthy"): f"1{FOREVER}",
    of_envoy("membership_excluded"): f"0{FOREVER}",
}
DRAINED = {of_envoy("membership_excluded"): f"1{FOREVER}"}
ENVOY_WHEN = {
    "all is well": (ENVOY_FLEET, {}, []),
    "a server is out": (ENVOY_FLEET, UNHEALTHY["a"], ["a"]),
    "a server is drained": (ENVOY_FLEET, UNHEALTHY["a"] | DRAINED, []),
    "one is drained, the other out": (ENVOY_FLEET, UNHEALTHY["a"] | UNHEALTHY["b"] | DRAINED, ["a", "b"]),
    "the fleet drains one": (IN_THE_FILE, UNHEALTHY["a"] | DRAINED, []),
    "the fleet drains one, the other is out": (IN_THE_FILE, UNHEALTHY["a"] | UNHEALTHY["b"] | DRAINED, ["b"]),
    "the fleet takes one down, the other is drained": (
        IN_THE_FILE.replace("drain", "down"), UNHEALTHY["a"] | UNHEALTHY["b"] | DRAINED, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENVOY_WHEN)
def test_envoy_alerts_of_servers_that_nobody_drained(rules, case):
    fleet, changed, out = ENVOY_WHEN[case]
    names = [said("ServerOut", pool="chat", server=letter) for letter in out]
    check(rules("envoy", fleet), ENVOY_HEALTHY | changed, {"5m": names})
