"""Rules about addresses of the balancer's own machine: who binds them, and who is called there."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING

from lbgen.fleet.rules.edge.endpoints import all_bound, all_called, all_doors
from lbgen.fleet.rules.rule import Finding, Rule, is_everywhere, is_loopback, is_public
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lbgen.fleet.rules.edge.endpoints import Bound
    from lbgen.model import Fleet, Listener
    from lbgen.problems import Path
    from lbgen.units import Address


def loop(fleet: Fleet) -> Iterator[Finding]:
    """Find what the balancer calls and binds itself."""
    bound = tuple(all_bound(fleet))
    own = _own_hosts(bound)
    there = _by_port(bound)
    for called in all_called(fleet):
        near = there.get(called.address.port, ())
        owner = next((one for one in near if _reaches(called.address, one.address, own)), None)
        if owner is None:
            continue
        if owner.kind in {"listener", "redirect"}:
            message = f"{called.address} is {owner.owner} itself: {called.what} would go in circles"
        else:
            message = f"{called.address} is {owner.owner}: {called.what} would get answers that are none"
        yield Finding(called.path, message)


def loop_by_name(fleet: Fleet) -> Iterator[Finding]:
    """Find servers by a name that may stand for the balancer's machine, at a port that a listener binds."""
    names = dict.fromkeys(_names_of_this_machine(), "this machine's name")
    for listener in fleet.listeners:
        names |= dict.fromkeys((host.lower() for host in listener.hosts), f"a host of '{listener.name}'")
    for name in fleet.balancers.peers:
        names.setdefault(name.lower(), "the name of a balancer")
    bound = _by_port(one for one in all_bound(fleet) if one.kind in {"listener", "redirect"})
    for called in all_called(fleet):
        why = names.get(called.address.host.lower().rstrip("."))
        owner = next(iter(bound.get(called.address.port, ())), None)
        if why and owner and not _reaches(called.address, owner.address, frozenset()):
            message = (
                f"{called.address} is {why}, and {owner.owner} has that port: {called.what} may go in circles"
            )
            yield Finding(called.path, message)


def _names_of_this_machine() -> Iterator[str]:
    name = os.uname().nodename.lower()
    yield name
    yield name.partition(".")[0]


def _by_port(bound: Iterable[Bound]) -> dict[int, list[Bound]]:
    """Return what is bound at each port, so that thousands of addresses are not compared each with each."""
    found: dict[int, list[Bound]] = {}
    for one in bound:
        found.setdefault(one.address.port, []).append(one)
    return found


def _own_hosts(bound: tuple[Bound, ...]) -> frozenset[str]:
    """Return the addresses that are the balancer's machine's, or of a balancer beside it."""
    own = (one.address.host for one in bound if one.kind != "agent")
    return frozenset(host for host in own if not is_everywhere(host) and not is_loopback(host))


def _reaches(called: Address, bound: Address, own: frozenset[str]) -> bool:
    """Tell whether who connects to the one address from the balancer's machine meets the other."""
    if called.port != bound.port:
        return False
    host, other = called.host.lower().rstrip("."), bound.host.lower().rstrip(".")
    if host == other:
        return True
    if is_everywhere(host) or is_loopback(host):
        return is_everywhere(other) or _same_loopback(host, other)
    return is_everywhere(other) and called.host in own


def _same_loopback(host: str, other: str) -> bool:
    """Tell whether two hosts can be one address of the machine's own; a name may be either family's first."""
    if not is_loopback(other):
        return False
    first = {"127.0.0.1": "4", "::1": "6", "0.0.0.0": "4", "::": "6"}  # noqa: S104 - compared, not bound
    families = [first.get(one, "46" if not one.startswith("127.") else one) for one in (host, other)]
    return families[0] in families[1] or families[1] in families[0]


def bind_clash(fleet: Fleet) -> Iterator[Finding]:
    """Find one address that two things want, or one wants twice in two ways."""
    yield from _mixed_tls(fleet)
    bound = tuple(all_bound(fleet))
    own = _own_hosts(bound)
    here = [
        one
        for one in bound
        if one.kind != "agent" or is_loopback(one.address.host) or one.address.host in own
    ]
    listeners = {listener.path: listener for listener in fleet.listeners}
    told: set[tuple[Path, str]] = set()
    for near in _by_port(here).values():
        for one, other in _pairs(near):
            if (one.path, other.kind) not in told and _clash(listeners, one, other):
                told.add((one.path, other.kind))
                yield Finding(other.path, _clash_message(one, other))


def _pairs(near: list[Bound]) -> Iterator[tuple[Bound, Bound]]:
    """Yield all pairs but those of listeners that share one address, as thousands of hosts do."""
    alike: dict[tuple[str, Address], list[int]] = {}
    for number, one in enumerate(near):
        alike.setdefault((one.kind, one.address), []).append(number)
    for number, one in enumerate(near):
        for kind, numbers in alike.items():
            if kind != ("listener", one.address) or one.kind != "listener":
                yield from ((one, near[other]) for other in numbers[bisect_right(numbers, number) :])


def _clash(listeners: Mapping[Path, Listener], one: Bound, other: Bound) -> bool:
    kinds = (one.kind, other.kind)
    if kinds in {("redirect", "redirect"), ("agent", "agent")}:
        return False
    if kinds == ("listener", "listener"):
        return _spelled_differently(one.address, other.address)
    if kinds == ("listener", "redirect"):
        return one.address == other.address and _same_hosts(listeners, one, other)
    if kinds == ("peer", "peer"):
        return one.address == other.address
    return _overlap(one.address, other.address)


def _clash_message(one: Bound, other: Bound) -> str:
    if other.kind == "redirect":
        return f"{other.address} cannot redirect: {one.owner} answers there"
    if one.kind == other.kind == "listener":
        return (
            f"{one.owner} binds {one.address}, {other.owner} {other.address}: one address, in two spellings"
        )
    return f"{other.address} is taken by {one.owner} already"


def _mixed_tls(fleet: Fleet) -> Iterator[Finding]:
    owners: dict[Address, tuple[str, bool]] = {}
    for listener in fleet.listeners:
        for bind in dict.fromkeys(listener.binds):
            name, secure = owners.setdefault(bind, (listener.name, listener.tls is not None))
            if secure != (listener.tls is not None):
                message = f"'{name}' and '{listener.name}' share {bind}, one with TLS and one without"
                yield Finding((*listener.path, "bind"), message, "give both TLS, or one of them another port")


def _same_hosts(listeners: Mapping[Path, Listener], one: Bound, other: Bound) -> bool:
    """Tell whether two listeners, the one by its bind and the other by its redirect, answer to one name."""
    first, second = (listeners[bound.path[:-1]] for bound in (one, other))
    return (not first.hosts and not second.hosts) or bool(set(first.hosts) & set(second.hosts))


def _overlap(one: Address, other: Address) -> bool:
    everywhere = is_everywhere(one.host) or is_everywhere(other.host)
    return one.port == other.port and (everywhere or _reaches(one, other, frozenset()))


def _spelled_differently(one: Address, other: Address) -> bool:
    """Tell whether two listeners' binds are one address, and would not be taken for it."""
    return (
        one != other
        and one.port == other.port
        and "*" in {one.host, other.host}
        and (is_everywhere(one.host) and is_everywhere(other.host))
    )


def unspecified_server(fleet: Fleet) -> Iterator[Finding]:
    """Find servers at an address that means 'every address'."""
    looped = {finding.path for finding in loop(fleet)}
    for pool in fleet.pools:
        for server in pool.servers:
            if is_everywhere(server.address.host) and server.path not in looped:
                local = "[::1]" if server.address.host == "::" else "127.0.0.1"
                message = f"{server.address} is where a server listens, not where it can be called"
                yield Finding(
                    server.path,
                    message,
                    f"write the machine's address or name; on this one {local}:{server.address.port}",
                )


def open_door(fleet: Fleet) -> Iterator[Finding]:
    """Find targets that others may stop: what they bind for themselves beyond loopback."""
    for door in all_doors(fleet):
        if is_public((door.address,)):
            message = f"whoever reaches {door.address} can stop the balancer, and reads its configuration"
            yield Finding(door.path, message)


RULES = (
    Rule(
        "loop",
        Severity.ERROR,
        "the balancer is told to call an address that it binds itself",
        "Each request comes back as a new one until the connections are used up (31 rounds on HAProxy"
        " 2.6). The two addresses need not look alike: 0.0.0.0, 127.0.0.1, ::1 and localhost all "
        "reach a listener that is bound to every address, and so does each address named by another "
        "bind or by the peers. The same applies to the port of a health check and to the service in "
        "`auth.external`.",
        "give the listener another port ('bind'), or the server its own address",
        loop,
    ),
    Rule(
        "loop-by-name",
        Severity.WARNING,
        "a server has a name of the balancer's own, and the port of a listener",
        "The name of the machine where the check runs, of a balancer among the peers, or in a "
        "listener's `hosts` usually leads back to the balancer. On another machine, or with another "
        "name server, it may not.",
        "write the server's own name or address",
        loop_by_name,
    ),
    Rule(
        "unspecified-server",
        Severity.ERROR,
        "a server's address is 0.0.0.0 or [::]",
        "Engines log `0.0.0.0` to say that they listen on all addresses. As a server's address, NGINX"
        " takes it to mean its own machine, HAProxy the address that the client called.",
        "write the machine's address or name",
        unspecified_server,
    ),
    Rule(
        "bind-clash",
        Severity.ERROR,
        "one address is bound for two things",
        "Listeners, redirects, metrics, the agent, the peers and Envoy's `admin` each need their own "
        "address. A port either uses TLS or not, and only one program answers on it. Programs either "
        "refuse to start, or some connections go to one and some to the other.",
        "give one of them another port",
        bind_clash,
    ),
    Rule(
        "open-target-admin",
        Severity.WARNING,
        "`targets.envoy.admin` is beyond loopback",
        "Envoy's admin pages ask for no key: `POST /quitquitquit` stops it, and `/config_dump` shows "
        "its whole configuration.",
        "write 127.0.0.1 and a port; for statistics use 'metrics'",
        open_door,
    ),
)
