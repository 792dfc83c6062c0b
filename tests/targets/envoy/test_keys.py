"""No key of the fleet file is lost on Envoy: it changes the files, or a row says what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lbgen.fields.walk import keys
from lbgen.fleet.load import load
from lbgen.fleet.schema import FLEET
from lbgen.fleet.text.source import Source
from lbgen.render import FLEET_FILE, render
from lbgen.secret_values import RealSecrets
from lbgen.targets.envoy import ENVOY
from lbgen.targets.envoy.limitations.limits import WHEN
from lbgen.targets.envoy.limitations.support import LIMITS, RENDERED, understood
from lbgen.vocabulary import Support
from tests.pages.fleet_file import _support
from tests.test_golden import SECRETS

KEYS = [key.path for key in keys(FLEET) if not key.path.startswith("targets")]

BASE: dict[str, Any] = {
    "pools": {
        "a": {"engine": "vllm", "servers": [{"address": "10.0.0.1:8000"}, {"address": "10.0.0.2:8000"}]},
        "b": {"servers": ["10.0.0.3:8000"]},
        "c": {"servers": [{"address": "gpu:8000"}]},
    },
    "listeners": {
        "l": {
            "bind": "127.0.0.1:8080",
            "hosts": ["a.example.org"],
            "auth": {"clients": "all"},
            "tls": {"certificate": "c.pem", "key": "k.pem"},
            "limits": [{"rate": "10/s"}],
            "routes": [{"path": "/a", "pool": "a"}, {"path": "/b", "pool": "b"}, {"pool": "c"}],
        }
    },
    "clients": {"x": {"key": "env:KEY", "rate": "10/s"}},
    "metrics": {"bind": "127.0.0.1:8404"},
    "targets": {"envoy": {}},
}
ROUTE = ("listeners", "l", "routes", 0)
CASES: dict[str, list[tuple[Any, ...]]] = {
    # What is written for a key: path and value in one tuple.
    "pools.*.models": [
        ("pools", "a", "models", ["m"]),
        (*ROUTE[:3], [{"model": "m", "pool": "a"}, {"pool": "b"}]),
    ],
    "pools.*.strategy": [("pools", "a", "strategy", "round_robin")],
    "pools.*.servers.*.weight": [("pools", "a", "servers", 0, "weight", 4)],
    "pools.*.servers.*.state": [("pools", "a", "servers", 0, "state", "drain")],
    "pools.*.servers.*.backup": [("pools", "a", "servers", 0, "backup", True)],
    "pools.*.servers.*.name": [("pools", "a", "servers", 0, "name", "other")],
    "pools.*.health.path": [("pools", "a", "health", {"path": "/x"})],
    "pools.*.health.interval": [("pools", "a", "health", {"interval": "7s"})],
    "pools.*.health.timeout": [("pools", "a", "health", {"timeout": "3s"})],
    "pools.*.health.rise": [("pools", "a", "health", {"rise": 9})],
    "pools.*.health.fall": [("pools", "a", "health", {"fall": 9})],
    "pools.*.health.expect": [("pools", "a", "health", {"expect": 204})],
    "pools.*.health.port": [("pools", "a", "health", {"port": 9})],
    "pools.*.health.headers": [("pools", "a", "health", {"headers": {"X-A": "b"}})],
    "pools.*.passive_health.failures": [("pools", "a", "passive_health", {"failures": 9})],
    "pools.*.passive_health.eject": [("pools", "a", "passive_health", {"eject": "99s"})],
    "pools.*.warmup": [("pools", "a", "warmup", "30s")],
    "pools.*.retry.attempts": [("pools", "a", "retry", {"attempts": 3})],
    "pools.*.retry.on": [("pools", "a", "retry", {"on": ["connect", "503"]})],
    "pools.*.timeouts.connect": [("pools", "a", "timeouts", {"connect": "9s"})],
    "pools.*.timeouts.first_byte": [("pools", "a", "timeouts", {"first_byte": "9s"})],
    "pools.*.timeouts.idle": [("pools", "a", "timeouts", {"idle": "30m"})],
    "pools.*.keepalive.idle_timeout": [("pools", "a", "keepalive", {"idle_timeout": "2s"})],
    "pools.*.keepalive.requests": [("pools", "a", "keepalive", {"requests": 7})],
    "pools.*.tls.ca": [("pools", "a", "tls", {"ca": "/x.pem"})],
    "pools.*.tls.server_name": [("pools", "a", "tls", {"server_name": "x.y"})],
    "pools.*.tls.verify": [("pools", "a", "tls", {"verify": False})],
    "pools.*.admin": [("pools", "a", "admin", "pass")],
    "pools.*.admin.clients": [("pools", "a", "admin", {"clients": ["x"]})],
    "pools.*.protocol": [("pools", "a", "protocol", "h2c")],
    "pools.*.host_header": [("pools", "a", "host_header", "x.y")],
    "pools.*.header_size": [("pools", "a", "header_size", "64KiB")],
    "pools.*.headers.set": [("pools", "a", "headers", {"set": {"X-A": "b"}})],
    "pools.*.headers.remove": [("pools", "a", "headers", {"remove": ["X-A"]})],
    "pools.*.dns.resolver": [("pools", "c", "dns", {"mode": "runtime", "resolver": ["10.0.0.10:53"]})],
    "pools.*.dns.valid": [("pools", "c", "dns", {"mode": "runtime", "valid": "77s"})],
    "listeners.*.hosts": [("listeners", "l", "hosts", ["b.example.org"])],
    "listeners.*.tls.profile": [("listeners", "l", "tls", "profile", "modern")],
    "listeners.*.tls.hsts": [("listeners", "l", "tls", "hsts", True)],
    "listeners.*.tls.client_ca": [("listeners", "l", "tls", "client_ca", "ca.pem")],
    "listeners.*.redirect_from": [("listeners", "l", "redirect_from", "127.0.0.1:8089")],
    "listeners.*.acme.pool": [("listeners", "l", "acme", {"pool": "b"})],
    "listeners.*.http2": [("listeners", "l", "http2", False)],
    "listeners.*.max_body": [("listeners", "l", "max_body", "1MiB")],
    "listeners.*.header_size": [("listeners", "l", "header_size", "64KiB")],
    "listeners.*.behind_proxy": [("listeners", "l", "behind_proxy", True)],
    "listeners.*.trusted_proxies": [("listeners", "l", "trusted_proxies", ["10.0.0.0/8"])],
    "listeners.*.accept_proxy": [("listeners", "l", "accept_proxy", True)],
    "listeners.*.auth.external.url": [("listeners", "l", "auth", {"external": {"url": "http://10.0.0.7:9/x"}})],
    "listeners.*.auth.external.forward": [
        ("listeners", "l", "auth", {"external": {"url": "https://x.y/z", "forward": ["Cookie"]}})
    ],
    "listeners.*.auth.header": [("listeners", "l", "auth", "header", "X-Key")],
    "listeners.*.auth.upstream": [("listeners", "l", "auth", "upstream", "pass")],
    "listeners.*.auth.upstream.set": [("listeners", "l", "auth", "upstream", {"set": "env:KEY"})],
    "listeners.*.auth.except": [("listeners", "l", "auth", "except", ["10.0.0.0/8"])],
    "listeners.*.limits.*.rate": [("listeners", "l", "limits", 0, "rate", "99/s")],
    "listeners.*.limits.*.burst": [("listeners", "l", "limits", 0, "burst", 99)],
    "listeners.*.limits.*.per": [("listeners", "l", "limits", 0, "per", "ip")],
    "listeners.*.cors.origins": [("listeners", "l", "cors", {"origins": ["https://x.y"]})],
    "listeners.*.cors.methods": [
        ("listeners", "l", "cors", {"origins": ["https://x.y"], "methods": ["PUT"]})
    ],
    "listeners.*.cors.headers": [("listeners", "l", "cors", {"origins": ["https://x.y"], "headers": ["X"]})],
    "listeners.*.cors.expose": [("listeners", "l", "cors", {"origins": ["https://x.y"], "expose": ["X"]})],
    "listeners.*.cors.max_age": [("listeners", "l", "cors", {"origins": ["https://x.y"], "max_age": "9s"})],
    "listeners.*.cors.credentials": [
        ("listeners", "l", "cors", {"origins": ["https://x.y"], "credentials": True})
    ],
    "listeners.*.timeouts.keepalive": [("listeners", "l", "timeouts", {"keepalive": "7s"})],
    "listeners.*.timeouts.header": [("listeners", "l", "timeouts", {"header": "7s"})],
    "listeners.*.allow": [("listeners", "l", "allow", ["10.0.0.0/8"])],
    "listeners.*.deny": [("listeners", "l", "deny", ["10.0.0.0/8"])],
    "listeners.*.response_headers.set": [("listeners", "l", "response_headers", {"set": {"X-A": "b"}})],
    "listeners.*.response_headers.remove": [("listeners", "l", "response_headers", {"remove": ["X-A"]})],
    "pools.*.response_headers.set": [("pools", "a", "response_headers", {"set": {"X-A": "b"}})],
    "pools.*.response_headers.remove": [("pools", "a", "response_headers", {"remove": ["X-A"]})],
    "listeners.*.routes.*.response_headers.set": [(*ROUTE, "response_headers", {"set": {"X-A": "b"}})],
    "listeners.*.routes.*.response_headers.remove": [(*ROUTE, "response_headers", {"remove": ["X-A"]})],
    "listeners.*.websocket": [("listeners", "l", "websocket", True)],
    "listeners.*.routes.*.name": [(*ROUTE, "name", "other")],
    "listeners.*.routes.*.host": [(*ROUTE, "host", ["x.y"])],
    "listeners.*.routes.*.method": [(*ROUTE, "method", ["PUT"])],
    "listeners.*.routes.*.path": [(*ROUTE, "path", "/x")],
    "listeners.*.routes.*.path_exact": [(*ROUTE[:3], [{"path_exact": "/x", "pool": "a"}])],
    "listeners.*.routes.*.header": [(*ROUTE, "header", {"X-A": "b"})],
    "listeners.*.routes.*.query": [(*ROUTE, "query", {"a": "b*"})],
    "listeners.*.routes.*.form": [(*ROUTE, "form", {"kind": "b*"})],
    "listeners.*.routes.*.model": [(*ROUTE, "model", "m")],
    "listeners.*.routes.*.prompt_over": [(*ROUTE, "prompt_over", "1KiB")],
    "listeners.*.routes.*.prompt_under": [(*ROUTE, "prompt_under", "1KiB")],
    "listeners.*.routes.*.max_tokens_over": [(*ROUTE, "max_tokens_over", 9)],
    "listeners.*.routes.*.websocket": [(*ROUTE, "websocket", True)],
    "listeners.*.routes.*.pool": [(*ROUTE, "pool", "b")],
    "listeners.*.routes.*.split": [(*ROUTE[:3], [{"split": {"a": 1, "b": 2}}])],
    "listeners.*.routes.*.by": [(*ROUTE[:3], [{"split": {"a": 1, "b": 2}, "by": "client"}])],
    "listeners.*.routes.*.by.header": [(*ROUTE[:3], [{"split": {"a": 1, "b": 2}, "by": {"header": "X"}}])],
    "listeners.*.routes.*.respond.status": [
        (*ROUTE[:3], [{"path": "/a", "respond": {"status": 418, "body": "x"}}])
    ],
    "listeners.*.routes.*.when_down": [(*ROUTE, "when_down", "b")],
    "listeners.*.routes.*.strip_prefix": [(*ROUTE, "strip_prefix", True)],
    "listeners.*.routes.*.add_prefix": [(*ROUTE, "add_prefix", "/x")],
    "listeners.*.routes.*.timeouts.first_byte": [(*ROUTE, "timeouts", {"first_byte": "77s"})],
    "listeners.*.routes.*.timeouts.idle": [(*ROUTE, "timeouts", {"idle": "77m"})],
    "listeners.*.routes.*.headers.set": [(*ROUTE, "headers", {"set": {"X-A": "b"}})],
    "listeners.*.routes.*.headers.remove": [(*ROUTE, "headers", {"remove": ["X-A"]})],
    "listeners.*.status.live": [("listeners", "l", "status", {"live": "/x"})],
    "listeners.*.status.ready": [("listeners", "l", "status", {"ready": "/x"})],
    "listeners.*.status.when": [("listeners", "l", "status", {"when": "all_pools"})],
    "clients.*.rate": [("clients", "x", "rate", "99/s")],
    "clients.*.burst": [("clients", "x", "burst", 99)],
    "clients.*.pools": [("clients", "x", "pools", ["a"])],
    "metrics.bind": [("metrics", "bind", "127.0.0.1:8405")],
    "metrics.allow": [("metrics", "allow", ["10.0.0.0/8"])],
    "metrics.auth": [("metrics", "auth", {"user": "u", "password": "env:P"})],
    "logs.to": [("logs", {"to": "/var/log/x"})],
    "logs.format": [("logs", {"format": "combined"})],
    "logs.level": [("logs", {"level": "error"})],
    "logs.fields": [("logs", {"fields": {"site": "one"}})],
}  # fmt: skip


def with_value(fleet: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy of a fleet with one value changed; the last of the path is the value."""
    if len(path) == 1:
        return path[0]
    first, rest = path[0], path[1:]
    if isinstance(fleet, list):
        return [with_value(one, rest) if index == first else one for index, one in enumerate(fleet)]
    inner = (fleet or {}).get(first)
    return {**(fleet or {}), first: with_value(inner, rest)}


def files(fleet: dict[str, Any]) -> dict[str, str]:
    loaded = load([Source("fleet.yaml", yaml.safe_dump(fleet))], environ={})
    assert loaded.fleet is not None, loaded.problems
    made = render(loaded.fleet, "envoy", secrets=RealSecrets(SECRETS))
    marks = (loaded.fleet.digest, "files")
    return {file.path: without_marks(file.text, marks) for file in made if file.path != FLEET_FILE}


def without_marks(text: str, marks: tuple[str, str]) -> str:
    """Return a file without what any change of the fleet changes: digest and fingerprint."""
    kept = [line for line in text.splitlines() if not any(mark in line for mark in (*marks, "version_info"))]
    return "\n".join(kept)


@pytest.mark.parametrize("path", CASES)
def test_what_is_rendered_changes_the_files(path: str) -> None:
    changed = BASE
    for case in CASES[path]:
        changed = with_value(changed, case)
    assert path in RENDERED or understood(path)
    assert files(changed) != files(BASE)


ELSEWHERE = {
    # What they do is done before a target sees the fleet, or shows with the key beside them.
    "version", "name", "balancers.count", "pools.*.engine", "pools.*.servers.*.address",
    "pools.*.tls.certificate",
    "pools.*.tls.key", "pools.*.discover.dns", "pools.*.discover.port", "pools.*.discover.file",
    "pools.*.allow_empty", "pools.*.standby", "listeners.*.bind", "listeners.*.tls.certificate",
    "listeners.*.tls.key", "listeners.*.tls.bundle", "listeners.*.auth.clients", "listeners.*.inspect.body",
    "listeners.*.routes.*.respond.json", "listeners.*.routes.*.respond.body",
    "listeners.*.routes.*.respond.content_type", "clients.*.key", "clients.*.keys", "metrics.auth.user",
    "metrics.auth.password", "pools.*.timeouts.tunnel", "listeners.*.routes.*.timeouts.tunnel",
}  # fmt: skip


@pytest.mark.parametrize("path", KEYS)
def test_every_key_has_a_case_or_a_row_or_is_refused(path: str) -> None:
    if any(other.startswith(f"{path}.") for other in KEYS):
        return  # a mapping: its keys count
    limited = any(path == limit.key or path.startswith(f"{limit.key}.") for limit in LIMITS)
    refused = not ENVOY.understands(path)
    assert sum((path in CASES, path in ELSEWHERE)) + limited + refused, path
    assert not refused or path not in RENDERED


def test_the_reference_says_of_an_unknown_key_that_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lbgen.targets.envoy.limitations.support.understood", lambda key: key != "pools.*.header_size"
    )
    assert _support(ENVOY, "pools.*.header_size") == "refused"
    assert _support(ENVOY, "pools.*.retry.within").startswith("degraded: ")
    assert _support(ENVOY, "pools.*.protocol") == "yes"


def problems(fleet: dict[str, Any]) -> list[tuple[str, str]]:
    loaded = load([Source("fleet.yaml", yaml.safe_dump(fleet))], environ={})
    return [(one.code, one.message) for one in loaded.problems if one.code.startswith("target-")]


def test_a_key_that_the_table_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lbgen.targets.envoy.limitations.limits.understood", lambda key: key != "pools.*.header_size"
    )
    said = problems(with_value(BASE, ("pools", "a", "header_size", "64KiB")))
    assert ("target-refused", "Envoy 1.36: 'header_size' is not supported on Envoy") in said


def test_rows_are_found_or_found_out() -> None:
    for limit in LIMITS:
        assert not limit.when or limit.when in WHEN
        assert limit.reason
        assert limit.support in {Support.DEGRADED, Support.REFUSED}
    assert {limit.when for limit in LIMITS if limit.when} == WHEN.keys()


@pytest.mark.parametrize(
    ("case", "code", "name"),
    [
        (("pools", "a", "queue", {"size": 9}), "degraded", "queue"),
        (("pools", "a", "queue", {"order": "shortest_first"}), "refused", "queue.order"),
        (("pools", "a", "max_in_flight", 9), "degraded", "max_in_flight"),
        (("pools", "a", "strategy", "pack"), "refused", "strategy"),
        (("pools", "a", "strategy", "kv_cache"), "refused", "strategy"),
        (("pools", "a", "strategy", {"name": "session", "learn": {"header": "X"}}), "refused", "strategy"),
        (("pools", "a", "strategy", "prefix"), "degraded", "strategy.prefix"),
        (("pools", "a", "timeouts", {"idle": "1s"}), "degraded", "timeouts.idle"),
        (("clients", "x", "max_in_flight", 9), "refused", "clients.max_in_flight"),
        (("pools", "c", "servers", ["gpu:8000", "unix:/run/a.sock"]), "refused", "address"),
        (("listeners", "l", "bind", "localhost:8080"), "refused", "bind"),
        (("metrics", "bind", "localhost:8404"), "refused", "bind"),
        (("clients", "x", "priority", 9), "refused", "priority"),
        (("listeners", "l", "limits", 0, "concurrent", 9), "refused", "concurrent"),
        (("listeners", "l", "max_body", "1MiB"), "degraded", "max_body"),
        (("logs", {"to": "syslog:10.0.0.1:514"}), "degraded", "logs.to"),
        ((*ROUTE[:3], [{"split": {"a": 1, "b": 1}, "by": "client"}]), "", ""),
    ],
)
def test_verdicts(case: tuple[Any, ...], code: str, name: str) -> None:
    fleet = with_value(BASE, case)
    found = [one for one in problems(fleet) if f"'{name}'" in one[1]]
    assert bool(found) is bool(name)
    assert not name or found[0][0] == f"target-{code}"
    if name:
        accepted = with_value(fleet, ("targets", "envoy", "without", [name]))
        assert not [one for one in problems(accepted) if f"'{name}'" in one[1]]


def test_defaults_cause_no_verdict() -> None:
    assert not problems({"pools": {"a": {"engine": "vllm", "servers": ["a:1"]}}, "targets": {"envoy": {}}})
