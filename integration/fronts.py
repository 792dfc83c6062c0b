"""One fleet behind any of the balancers, for clients that know an address alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from integration import envoy_site
from integration.fleets import PROXIES, Proxy, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lbgen.lab.rig import Rig

SECRETS = envoy_site.SECRETS
"""The environment of a front's fleet."""
ENVOY = "envoy"
FRONTS: tuple[Proxy | str, ...] = (*PROXIES, ENVOY)
"""The oldest and the newest NGINX and HAProxy in containers, and Envoy on this machine."""


class Front(NamedTuple):
    """A running balancer."""

    url: str
    reload: Callable[[dict[str, Any]], None]
    """Have it read the files of another fleet, as `apply` does."""


@contextmanager
def front(rig: Rig, one: Proxy | str, fleet: dict[str, Any], folder: Path) -> Iterator[Front]:
    """Start a balancer for a fleet with a single listener, whose servers listen on the rig's gateway."""
    if not isinstance(one, Proxy):
        with envoy_site.running(fleet, folder) as site:
            yield Front(f"http://127.0.0.1:{site.port}", site.write)
        return
    box = rig.balancer(one.target, one.image, files(fleet, one, SECRETS))
    try:
        yield Front(box.url, lambda other: box.reload(files(other, one, SECRETS)))
    finally:
        box.remove()
