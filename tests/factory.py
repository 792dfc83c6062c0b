"""Fleets made by hand, for tests that need a model and no file."""

from __future__ import annotations

from typing import Any

from lbgen.model import (
    Admin,
    Auth,
    Balancers,
    Client,
    ClientTimeouts,
    Cors,
    Dns,
    Fleet,
    Headers,
    Health,
    Keepalive,
    Listener,
    Logs,
    Match,
    PassiveHealth,
    Pool,
    Queue,
    Retry,
    Route,
    Secret,
    Server,
    State,
    Status,
    StrategyChoice,
    TargetSettings,
    Timeouts,
)
from lbgen.targets.registry import TARGETS
from lbgen.units import Address, expand_ranges, parse_address
from lbgen.vocabulary import Version

TIMEOUTS = Timeouts(connect=3_000, first_byte=600_000, idle=600_000, send=60_000, tunnel=3_600_000)


class Everything:
    """Origins that take every value as written, or (with `written=()`) none but those listed."""

    def __init__(self, written: set[tuple[str | int, ...]] | None = None) -> None:
        self._written = written

    def __call__(self) -> Everything:
        return self

    def written(self, path: tuple[str | int, ...]) -> bool:
        return self._written is None or path in self._written

    def plain(self) -> dict[str, Any]:
        return {}


def servers(*texts: str, pool: str = "chat", **values: Any) -> tuple[Server, ...]:
    """Servers from ``host:port`` texts with ranges."""
    addresses = [parse_address(text) for entry in texts for text in expand_ranges(entry)]
    hosts = [address.host for address in addresses]
    made = []
    for index, address in enumerate(addresses):
        name = address.host if hosts.count(address.host) == 1 else f"{address.host}-{address.port}"
        fields = {
            "weight": 1,
            "max_in_flight": None,
            "state": State.UP,
            "backup": False,
            "path": ("pools", pool, "servers", index),
            **values,
        }
        made.append(Server(address=address, name=name.replace(":", "-"), **fields))
    return tuple(made)


def pool(name: str = "chat", **values: Any) -> Pool:
    """A pool of two vLLM servers with lbgen's defaults."""
    defaults: dict[str, Any] = {
        "name": name,
        "engine": "vllm",
        "models": (),
        "strategy": StrategyChoice("least_conn"),
        "servers": servers("gpu-[0-1]:8000", pool=name),
        "max_in_flight": None,
        "queue": Queue(size=512, timeout=60_000, order="fifo"),
        "health": Health("/health", 5_000, 5_000, 2, 3, 200, None),
        "passive_health": PassiveHealth(3, 10_000, 10_000),
        "warmup": None,
        "retry": Retry(1, ("connect",), 10_000, False),
        "timeouts": TIMEOUTS,
        "keepalive": Keepalive(64, 4_000, 1_000),
        "tls": None,
        "protocol": "http",
        "host_header": "client",
        "header_size": 32 * 1024,
        "headers": Headers(),
        "response_headers": Headers(),
        "request_buffering": None,
        "dns": Dns("static", (), 10_000),
        "discover": None,
        "admin": Admin(),
        "allow_empty": False,
        "standby": False,
        "path": ("pools", name),
    }
    return Pool(**(defaults | values))


def route(name: str = "default", **values: Any) -> Route:
    """A route that takes everything to the pool ``chat``."""
    defaults: dict[str, Any] = {
        "name": name,
        "match": Match(),
        "pool": "chat",
        "split": {},
        "split_by": "request",
        "when_down": None,
        "respond": None,
        "strip_prefix": False,
        "add_prefix": "",
        "priority": None,
        "timeouts": Timeouts(),
        "headers": Headers(),
        "path": ("listeners", "default", "routes", 0),
    }
    return Route(**(defaults | values))


def listener(name: str = "default", **values: Any) -> Listener:
    """Port 8080 on every address, open, everything to the pool ``chat``."""
    defaults: dict[str, Any] = {
        "name": name,
        "binds": (Address("*", 8080),),
        "hosts": (),
        "tls": None,
        "redirect_from": (),
        "acme": None,
        "http2": True,
        "max_body": 64 * 1024**2,
        "header_size": 32 * 1024,
        "inspect_body": 1024**2,
        "timeouts": ClientTimeouts(75_000, 60_000, 60_000),
        "behind_proxy": False,
        "explain": False,
        "trusted_proxies": (),
        "accept_proxy": False,
        "allow": (),
        "deny": (),
        "auth": Auth((), "Authorization", "strip", None, (), False),
        "limits": (),
        "cors": Cors(),
        "response_headers": Headers(),
        "websocket": False,
        "routes": (route(),),
        "status": Status("/lb/live", "/lb/ready", "any_pool"),
        "path": ("listeners", name),
    }
    return Listener(**(defaults | values))


def settings(name: str = "nginx", version: str = "1.22", **values: Any) -> TargetSettings:
    """The settings of a target."""
    table = TARGETS[name].settings
    return table.make(
        name, table.keys.defaults | {"version": Version.parse(version), "raw": {}} | values
    )._replace(path=())


def fleet(*pools: Pool, **values: Any) -> Fleet:
    """A fleet of the given pools (default: one) behind one listener, for all targets."""
    defaults: dict[str, Any] = {
        "name": "test",
        "balancers": Balancers(1, {}),
        "pools": pools or (pool(),),
        "listeners": (listener(),),
        "clients": (),
        "metrics": None,
        "logs": Logs("stdout", "json", "info"),
        "targets": (settings(), settings("haproxy", "2.6"), settings("envoy", "1.36")),
        "digest": "0" * 12,
        "origins": Everything(),
    }
    return Fleet(**(defaults | values))


def client(name: str = "team-a", **values: Any) -> Client:
    """A client with one key from the environment."""
    defaults: dict[str, Any] = {
        "name": name,
        "keys": (Secret("env", "TEAM_A_KEY"),),
        "priority": 0,
        "rate": None,
        "burst": 0,
        "max_in_flight": None,
        "pools": (),
        "path": ("clients", name),
    }
    return Client(**(defaults | values))
