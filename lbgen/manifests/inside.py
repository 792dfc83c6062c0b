"""A fleet as a container has it: no user to become, `/tmp` to write to, and other addresses."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.rules.rule import is_everywhere, is_loopback
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.targets.registry import TARGETS
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.manifests.order import Order
    from lbgen.model import Fleet, ListenerTls, ServerTls, TargetSettings
    from lbgen.render import RenderedFile

PRIVILEGED = 1024
"""Ports below it are the administrator's, unless a container is told otherwise."""


class Inside(NamedTuple):
    """A target in its container."""

    files: tuple[RenderedFile, ...]
    published: tuple[Address, ...]
    """Where clients come in: addresses as the fleet has them."""
    writable: tuple[str, ...]
    """Folders beside `/tmp` that the program writes to."""
    foreign: tuple[str, ...]
    """Files that the configuration names and that lbgen does not write: certificates, mostly."""
    notes: tuple[str, ...]

    @property
    def privileged(self) -> int | None:
        """The lowest port that needs a privilege; None when there is none."""
        return min((one.port for one in self.published if one.port < PRIVILEGED), default=None)


def inside(order: Order, *, own_addresses: bool) -> Inside:
    """Return the target as it runs in a container.

    `own_addresses`: the machine that publishes the container's ports has the fleet's addresses, as with
    Compose; the program then listens everywhere in its container. Otherwise (Kubernetes) nobody has
    them, and a listener that is bound to one raises `LbgenError`.
    """
    fleet = order.fleet
    published = tuple(_published(fleet))
    _refuse_peers(order)
    if own_addresses:
        _refuse_equal_ports(fleet)
    else:
        _refuse_addresses(fleet)
    moved = _everywhere(fleet)
    moved = moved._replace(
        targets=tuple(_settings(one) if one.name == order.target else one for one in moved.targets)
    )
    files = render(moved, order.target, "all", order.templates, order.secrets, order.settle)
    used = tuple(file for file in files if not file.aside)
    return Inside(
        used,
        published,
        tuple(_writable(fleet, order.settings)),
        tuple(_foreign(fleet, used)),
        tuple(_notes(fleet, order.settings)),
    )


def _published(fleet: Fleet) -> Iterator[Address]:
    for listener in fleet.listeners:
        yield from listener.binds
        yield from listener.redirect_from
    if fleet.metrics is not None:
        yield from (bind for bind in fleet.metrics.binds if not is_loopback(bind.host))


def _refuse_peers(order: Order) -> None:
    target = TARGETS[order.target]
    if target.abilities.peers and order.fleet.balancers.own:
        raise LbgenError(
            f"--balancer {order.fleet.balancers.own}: {target.title} binds its own address among"
            " balancers.peers, which a container does not have: remove it, and each balancer learns for"
            " itself"
        )


def _refuse_equal_ports(fleet: Fleet) -> None:
    """Refuse addresses of one port that lead to different listeners: in a container they are one."""
    owners: dict[int, tuple[Address, ...]] = {}
    for listener in fleet.listeners:
        for binds in (listener.binds, listener.redirect_from):
            for bind in binds:
                same = tuple(one for one in binds if one.port == bind.port)
                if owners.setdefault(bind.port, same) != same:
                    raise LbgenError(
                        f"port {bind.port} is bound at {owners[bind.port][0]} and at {bind} for different "
                        "listeners: in a container, where both are one address, give them different ports"
                    )


def _refuse_addresses(fleet: Fleet) -> None:
    found = [(f"listeners.{one.name}.bind", bind) for one in fleet.listeners for bind in one.binds]
    found += [
        (f"listeners.{one.name}.redirect_from", bind) for one in fleet.listeners for bind in one.redirect_from
    ]
    if fleet.metrics is not None:
        found += [("metrics.bind", bind) for bind in fleet.metrics.binds if not is_loopback(bind.host)]
    for key, bind in found:
        if not is_everywhere(bind.host):
            raise LbgenError(
                f"{key}: {bind} is an address of one machine, where a pod has its own: "
                f"bind the port alone, with --set {key}={bind.port}"
            )


def _everywhere(fleet: Fleet) -> Fleet:
    def bound(binds: tuple[Address, ...]) -> tuple[Address, ...]:
        return tuple(
            dict.fromkeys(one if is_everywhere(one.host) else Address("*", one.port) for one in binds)
        )

    listeners = tuple(
        one._replace(binds=bound(one.binds), redirect_from=bound(one.redirect_from))
        for one in fleet.listeners
    )
    metrics = fleet.metrics
    if metrics is not None:
        alone = tuple(one for one in metrics.binds if is_loopback(one.host))
        others = bound(tuple(one for one in metrics.binds if not is_loopback(one.host)))
        metrics = metrics._replace(binds=(*alone, *others))
    return fleet._replace(listeners=listeners, metrics=metrics)


def _settings(settings: TargetSettings) -> TargetSettings:
    raw = dict(settings.raw)
    for level, lines in TARGETS[settings.name].program.levels.items():
        written = " ".join(raw.get(level, ()))
        own = tuple(line for line in lines if line.partition(" ")[0] not in written)
        raw[level] = (*raw.get(level, ()), *own)
    return settings._replace(user=None, raw=raw)


def _writable(fleet: Fleet, settings: TargetSettings) -> Iterator[str]:
    named = [settings.runtime_socket]
    if not fleet.logs.to.startswith(("stdout", "syslog:")):
        named.append(fleet.logs.to)
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in named if path)
    for folder in folders:
        if folder in {"/", settings.directory}:
            raise LbgenError(
                f"{next(path for path in named if path)}: a container can write only to a folder of "
                "its own: name one in a folder such as /run/lbgen"
            )
        if PurePosixPath("/tmp") not in (PurePosixPath(folder), *PurePosixPath(folder).parents):  # noqa: S108
            yield folder


def _foreign(fleet: Fleet, files: Iterable[RenderedFile]) -> Iterator[str]:
    """Yield the files of the user's that the rendered text still names, each once."""
    text = "\n".join(file.text for file in files)
    named: list[str | None] = []
    for listener in fleet.listeners:
        named += _tls_files(listener.tls)
        named.append(listener.acme.webroot if listener.acme else None)
    for pool in fleet.pools:
        named += _tls_files(pool.tls)
    yield from dict.fromkeys(path for path in named if path and path in text)


def _tls_files(tls: ListenerTls | ServerTls | None) -> list[str | None]:
    names = ("certificate", "key", "bundle", "directory", "client_ca", "ca")
    return [getattr(tls, name, None) for name in names]


def _notes(fleet: Fleet, settings: TargetSettings) -> Iterator[str]:
    if settings.user:
        number = TARGETS[settings.name].program.user
        yield f"user {settings.user} is left out: in its container it runs as user {number} from the start"
    for pool in fleet.pools:
        if any(is_loopback(server.address.host) for server in pool.servers):
            yield f"pool {pool.name}: its servers on this machine's loopback are, in a container, its own"
    if fleet.metrics and any(is_loopback(bind.host) for bind in fleet.metrics.binds):
        yield f"metrics: {fleet.metrics.binds[0]} is to be reached inside of the container alone"
