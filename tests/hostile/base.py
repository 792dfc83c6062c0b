"""Fleets that hold every text a fleet file can hold, and the places of those texts."""

from __future__ import annotations

import copy
from typing import Any

from lbgen.fields import ListOf, MapOf, OneOf, Struct, Text, Variants

Place = tuple[str | int, ...]

KEY = "a key"
"""Ends the place of a mapping's key: the key itself is the text, not its value."""

FLEET: dict[str, Any] = {
    "name": "hostile",
    "pools": {
        "chat": {
            "engine": "vllm",
            "models": ["llama-70b", "llama*"],
            "strategy": "least_conn",
            "servers": [
                {"address": "gpu-0:8000", "name": "first", "state": "up"},
                "10.0.0.7:8000",
            ],
            "queue": {"timeout": "60s", "order": "fifo"},
            "max_in_flight": 32,
            "health": {"path": "/health", "interval": "5s", "timeout": "5s", "headers": {"X-Check": "yes"}},
            "passive_health": {"window": "10s", "eject": "10s"},
            "warmup": "30s",
            "retry": {"on": ["connect"], "within": "10s"},
            "timeouts": {
                "connect": "3s",
                "first_byte": "10m",
                "idle": "10m",
                "send": "60s",
                "tunnel": "1h",
            },
            "keepalive": {"idle_timeout": "4s"},
            "tls": {"ca": "/etc/lb/ca.pem", "server_name": "gpu.internal", "certificate": "c.pem",
                "key": "k.pem"},
            "protocol": "http",
            "host_header": "llm.internal",
            "header_size": "64KiB",
            "headers": {"set": {"X-Pool": "llama"}, "remove": ["X-Debug"]},
            "admin": {"clients": ["team-a", "10.0.0.0/8"]},
            "response_headers": {"set": {"X-Answered": "by-llama"}, "remove": ["X-Powered-By"]},
            "dns": {"mode": "static", "resolver": ["10.0.0.10:53"], "valid": "10s"},
        },
        "embed": {"engine": "tei", "servers": "embed-0:8000", "health": "tcp"},
        "cluster": {"discover": {"dns": "vllm.svc.cluster.local", "port": 8000}},
    },
    "listeners": {
        "public": {
            "bind": ["0.0.0.0:8443"],
            "hosts": ["llm.example.org"],
            "tls": {
                "certificate": "fullchain.pem",
                "key": "privkey.pem",
                "profile": "intermediate",
                "client_ca": "clients.pem",
            },
            "redirect_from": ["0.0.0.0:8080"],
            "acme": {"webroot": "/var/www/acme"},
            "max_body": "64MiB",
            "header_size": "64KiB",
            "inspect": {"body": "1MiB"},
            "timeouts": {"keepalive": "75s", "header": "10s", "body": "1m"},
            "trusted_proxies": ["10.0.0.0/8"],
            "allow": ["10.0.0.0/8", "203.0.113.0/24"],
            "deny": ["203.0.113.66"],
            "auth": {
                "clients": ["team-a"],
                "header": "Authorization",
                "websocket_protocol": "openai-insecure-api-key",
                "upstream": {"set": "env:ENGINE_KEY"},
                "except": ["127.0.0.0/8"],
            },
            "limits": [{"rate": "600/m", "burst": 50, "per": "client"}],
            "cors": {
                "origins": ["https://chat.example.org"],
                "methods": ["GET", "POST"],
                "headers": ["Authorization"],
                "expose": ["X-Usage"],
                "max_age": "1h",
            },
            "response_headers": {"set": {"X-Edge": "public"}, "remove": ["X-Secret"]},
            "websocket": True,
            "routes": [
                {
                    "name": "embeddings",
                    "host": ["llm.example.org"],
                    "method": ["POST"],
                    "path": ["/v1/embeddings"],
                    "header": {"X-Tier": "batch"},
                    "pool": "embed",
                    "add_prefix": "/api",
                    "strip_prefix": True,
                    "timeouts": {"first_byte": "30m", "idle": "30m",
                        "connect": "3s", "send": "1m", "tunnel": "1h"},
                    "headers": {"set": {"X-Route": "embeddings"}, "remove": ["X-Trace"]},
                    "response_headers": {"set": {"X-Way": "embeddings"}, "remove": ["X-Backend"]},
                },
                {"path_exact": "/hello",
                    "respond": {"status": 200, "body": "hello", "content_type": "text/plain"}},
                {"path_exact": "/json", "respond": {"json": {"object": "list", "data": ["one"]}}},
                {"path": "/big", "prompt_over": "32KiB", "pool": "chat"},
                {"path": "/small", "prompt_under": "4KiB", "pool": "chat"},
                {"model": ["llama-70b", "llama*"], "pool": "chat", "when_down": "embed"},
                {"path": "/speech", "form": {"language": "de"}, "pool": "chat"},
                {"path": "/realtime", "query": {"model": "voxtral*"}, "pool": "chat"},
                {"path": "/split", "split": {"chat": 90, "embed": 10}, "by": {"header": "X-User"}},
                {"path": "/cluster", "pool": "cluster"},
            ],
            "status": {"live": "/lb/live", "ready": "/lb/ready", "when": "any_pool"},
        },
        "bundled": {"bind": "127.0.0.1:8444",
            "auth": {"external": {"url": "http://127.0.0.1:9000/check", "forward": ["X-Key"]}},
            "tls": {"bundle": "both.pem"}, "acme": {"pool": "embed"}, "routes": [{"pool": "embed"}]},
    },
    "clients": {
        "team-a": {"key": "env:TEAM_A_KEY", "rate": "600/m", "pools": ["chat", "embed"]},
        "team-b": {"keys": ["env:TEAM_B_KEY"]},
    },
    "metrics": {
        "bind": "127.0.0.1:8404",
        "allow": ["10.0.0.0/8"],
        "auth": {"user": "prometheus", "password": "env:P"},
    },
    "logs": {"to": "stdout", "format": "json", "level": "info",
        "fields": {"model": "model", "app": "header:X-App", "region": "eu-1"}},
}  # fmt: skip

SETTINGS: dict[str, dict[str, Any]] = {
    "nginx": {"version": "1.30", "directory": "/etc/nginx", "user": "nginx", "drain_timeout": "15m"},
    "haproxy": {
        "version": "3.2",
        "directory": "/etc/haproxy",
        "user": "haproxy",
        "runtime_socket": "/run/haproxy/admin.sock",
        "drain_timeout": "15m",
    },
}

OWN_KEYS = (
    "pools", "listeners", "clients", "set", "header", "headers", "query", "form", "fields", "split", "json",
)  # fmt: skip
"""Mappings whose keys the user chooses; what is no key elsewhere is unknown, whatever it is."""

NOT_IN_THE_BASE = {
    "pools.*.discover.file": "a file that is read; only its name is a text, and a wrong one is an error",
    "listeners.*.tls.directory": "HAProxy alone, in place of certificate",
    "targets.nginx.modules": "names of modules, which change what is rendered",
    "targets.envoy": "its files are YAML, and have tests of their own",
    "targets.*.without": "names of keys",
    "targets.*.raw": "the target's own language, as it is, on purpose",
    "balancers.peers": "needs a name for the balancer that is rendered for",
    "pools.*.strategy": "parameters of strategies other than the default",
}
"""Texts that these fleets lack, and why."""


def base(target: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fleet for one target, which may lack some keys."""
    fleet = copy.deepcopy(FLEET)
    if target == "haproxy":
        # It wants both in one file, which lbgen makes of them: they would have to be there.
        del fleet["pools"]["chat"]["tls"]["certificate"], fleet["pools"]["chat"]["tls"]["key"]
    fleet["targets"] = {target: {**SETTINGS[target], **({"without": list(without)} if without else {})}}
    return fleet


def places(value: Any, at: Place = ()) -> list[Place]:
    """Return the place of every text in some data: values, and keys that are the user's own."""
    found: list[Place] = []
    if isinstance(value, str):
        return [at]
    if isinstance(value, list):
        return [place for index, item in enumerate(value) for place in places(item, (*at, index))]
    if isinstance(value, dict):
        for key, item in value.items():
            found += [(*at, key, KEY)] if at and at[-1] in OWN_KEYS else []
            found += places(item, (*at, key))
    return found


def text_at(fleet: dict[str, Any], place: Place) -> str:
    if place[-1] == KEY:
        return str(place[-2])
    value: Any = fleet
    for step in place:
        value = value[step]
    return str(value)


def replaced(fleet: dict[str, Any], place: Place, text: str) -> dict[str, Any]:
    """Return a copy of the fleet with another text at this place."""
    made = copy.deepcopy(fleet)
    steps = place[:-2] if place[-1] == KEY else place[:-1]
    holder: Any = made
    for step in steps:
        holder = holder[step]
    if place[-1] != KEY:
        holder[place[-1]] = text
        return made
    entries = [(text if key == place[-2] else key, value) for key, value in holder.items()]
    holder.clear()
    holder.update(entries)
    return made


def fields_of(kind: Any, at: str = "") -> set[str]:  # noqa: PLR0911 - one case a line
    """Return the path of every text that a kind of value can hold; ``*`` is a name of the user's."""
    if isinstance(kind, Text):
        return {at}
    if isinstance(kind, ListOf):
        return fields_of(kind.kind, at)
    if isinstance(kind, OneOf):
        return {path for one in kind.kinds for path in fields_of(one, at)}
    if isinstance(kind, MapOf):
        return {f"{at}.*", *fields_of(kind.kind, f"{at}.*")}
    if isinstance(kind, Variants):
        return {path for struct in kind.structs.values() for path in fields_of(struct, at)}
    if isinstance(kind, Struct):
        paths = (fields_of(field.kind, f"{at}.{field.name}".strip(".")) for field in kind.fields)
        return {path for found in paths for path in found}
    return set()
