"""Fleets as the loader makes them of small files, for tests that change a value of the model."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.targets.registry import TARGETS
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from lbgen.model import Client, Fleet, Listener, Pool, Route, Server, TargetSettings

FLEET = {
    "name": "test",
    "pools": {"chat": {"engine": "vllm", "servers": ["gpu-[0-1]:8000"]}},
    "clients": {"team-a": {"key": "env:TEAM_A_KEY"}},
    "listeners": {
        "default": {"bind": "8080", "auth": "none", "routes": [{"name": "default", "pool": "chat"}]}
    },
    "targets": {
        "nginx": {"version": "1.22"}, "haproxy": {"version": "2.6"}, "envoy": {"version": "1.36"},
    },
}  # fmt: skip


@cache
def _loaded(text: str) -> Fleet:
    found = load([Source("factory.yaml", text)], environ={})
    assert found.fleet is not None, found.problems
    return found.fleet


def _usual() -> Fleet:
    return _loaded(json.dumps(FLEET))


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
    fleet = _loaded(json.dumps({**FLEET, "pools": {"chat": {"engine": "vllm", "servers": texts}}}))
    return tuple(
        one._replace(**{"path": ("pools", pool, "servers", number), **values})
        for number, one in enumerate(fleet.pools[0].servers)
    )


def pool(name: str = "chat", **values: Any) -> Pool:
    """A pool of two vLLM servers with lbgen's defaults."""
    usual = {"name": name, "servers": servers("gpu-[0-1]:8000", pool=name), "path": ("pools", name)}
    return _usual().pools[0]._replace(**(usual | values))


def route(name: str = "default", **values: Any) -> Route:
    """A route that takes everything to the pool ``chat``."""
    return _usual().listeners[0].routes[0]._replace(**({"name": name} | values))


def listener(name: str = "default", **values: Any) -> Listener:
    """Port 8080 on every address, open, everything to the pool ``chat``."""
    return _usual().listeners[0]._replace(**({"name": name, "path": ("listeners", name)} | values))


def settings(name: str = "nginx", version: str = "1.22", **values: Any) -> TargetSettings:
    """The settings of a target."""
    table = TARGETS[name].settings
    return table.make(
        name, table.keys.defaults | {"version": Version.parse(version), "raw": {}} | values
    )._replace(path=())


def fleet(*pools: Pool, **values: Any) -> Fleet:
    """A fleet of the given pools (default: one) behind one listener, for all targets."""
    usual: dict[str, Any] = {
        "pools": pools or (pool(),),
        "clients": (),
        "targets": (settings(), settings("haproxy", "2.6"), settings("envoy", "1.36")),
        "digest": "0" * 12,
        "origins": Everything(),
    }
    return _usual()._replace(**(usual | values))


def client(name: str = "team-a", **values: Any) -> Client:
    """A client with one key from the environment."""
    return _usual().clients[0]._replace(**({"name": name, "path": ("clients", name)} | values))
