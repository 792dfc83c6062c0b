"""Where to ask a balancer in its container whether it lives, and whether it can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.rules.rule import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener


class Probe(NamedTuple):
    """One place to ask. Without `path`, all there is to see is whether a connection opens."""

    port: int
    path: str | None = None
    tls: bool = False
    host: str | None = None
    """The name to ask for, where the listener goes by names."""


def live(fleet: Fleet) -> Probe:
    """Return the best place to ask whether the program lives."""
    return _best(fleet, "live")


def ready(fleet: Fleet) -> Probe:
    """Return the best place to ask whether a routed pool has a live server."""
    return _best(fleet, "ready")


def _best(fleet: Fleet, question: str) -> Probe:
    found = sorted(_probes(fleet, question), key=lambda probe: (probe.path is None, probe.tls))
    return found[0]  # every fleet has a listener, and every listener an address


def _probes(fleet: Fleet, question: str) -> Iterator[Probe]:
    for listener in fleet.listeners:
        yield _of_listener(listener, question)
    if fleet.metrics is not None:
        for bind in fleet.metrics.binds:  # its two probes ask for no password
            if not is_loopback(bind.host):
                yield Probe(bind.port, f"/{question}")


def _of_listener(listener: Listener, question: str) -> Probe:
    port = listener.binds[0].port
    path = listener.status.live if question == "live" else listener.status.ready
    asks_more = listener.accept_proxy or (listener.tls is not None and listener.tls.client_ca is not None)
    if path is None or asks_more:
        return Probe(port)
    host = next(iter(listener.hosts), None)
    return Probe(port, path, listener.tls is not None, host.replace("*", "probe") if host else None)
