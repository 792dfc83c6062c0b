"""``frontend`` and ``listen`` sections as listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.cors import PREFIX, cors
from lbgen.imports.draft import Said, free_name
from lbgen.imports.haproxy.listeners.binds import Bind, binds
from lbgen.imports.haproxy.listeners.conditions import Conditions
from lbgen.imports.haproxy.listeners.front import Front
from lbgen.imports.haproxy.listeners.guards import guarded
from lbgen.imports.haproxy.listeners.ordering import in_order
from lbgen.imports.haproxy.listeners.refusals import close_backends, in_defaults, refuse
from lbgen.imports.haproxy.listeners.rules import read_rule
from lbgen.imports.values import duration, haproxy_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.imports.draft import Tree
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Section


def read_frontends(reading: Reading) -> None:
    """Make listeners of all sections that clients call."""
    plain: list[tuple[Front, list[Bind]]] = []
    secure: list[Tree] = []
    for section in reading.configuration.all("frontend", "listen"):
        settled = section.title in reading.settled or _is_statistics(section)
        if not section.own("bind") or settled or _passes_tls(reading, section):
            continue
        front = _front(reading, section)
        if not front.routes and front.redirect is None:
            reading.left(section.own("bind"), "no imported rule answers requests here")
            continue
        groups = list(binds(reading, section))
        with_tls = [one for one in groups if one.tls is not None]
        without = [one for one in groups if one.tls is None]
        if front.redirect is not None and not with_tls:
            plain.append((front, without))
            continue
        if with_tls:
            tree = _listener(reading, front, with_tls)
            secure.append(tree)
            if front.redirect is not None and without:
                reading.carry([front.redirect])
                tree["redirect_from"] = Said([one.address for one in without], without[0].place)
                _acme(front, tree)
                continue
        if without:
            _listener(reading, front, without)
    _redirects(reading, plain, secure)


def _is_statistics(section: Section) -> bool:
    return (
        bool(section.own("stats"))
        and not section.servers()
        and not section.own("use_backend")
        and (section.last("default_backend") is None)
    )


def _passes_tls(reading: Reading, section: Section) -> bool:
    """Tell whether a section hands TLS through to its servers, which no listener does."""
    mode = section.last("mode")
    if mode is not None and mode.words[1:] == ("http",):
        return False
    hello = [
        line for line in section.lines if any("ssl_sni" in word or "ssl_hello" in word for word in line.words)
    ]
    for line in hello:
        reading.ledger.left(line.location, "TLS passthrough has no key")
    return bool(hello)


def _front(reading: Reading, section: Section) -> Front:
    front = Front(section, Conditions(section))
    reading.carry(section.own("mode", "http"))
    for line in section.lines:
        read_rule(reading, front, line)
    for line in in_defaults(section):
        refuse(reading, front, line, "what defaults refuse has no key")
    default = section.last("default_backend")
    if default is not None and len(default.words) > 1:
        reading.ledger.carried(default.location)
        front.lead({}, default.words[1], default)
    elif section.name in reading.pools and section.kind == "listen":
        front.lead({}, section.name, section.head)
    close_backends(reading, front)
    return front


def _listener(reading: Reading, front: Front, group: Sequence[Bind]) -> Tree:
    addresses = [one.address for one in group]
    first = group[0]
    tree: Tree = {"bind": Said(addresses[0] if len(addresses) == 1 else addresses, first.place)}
    if first.tls is not None:
        if first.tls:
            tree["tls"] = Said({**first.tls, **({"hsts": True} if front.hsts else {})}, first.place)
        else:
            reading.ledger.left(first.place, "it listens with TLS, but no certificate was found")
        if not first.http2:
            tree["http2"] = Said(value=False, place=first.place)
    if first.proxy:
        tree["accept_proxy"] = Said(value=True, place=first.place)
    tree |= guarded(reading, front)
    if front.websocket is not None:
        tree["websocket"] = Said(value=True, place=front.websocket.location)
    _answers(reading, front, tree)
    _timers(reading, front, tree)
    probes = list(front.status.values())
    front.routes = [
        one for one in front.routes if not one.respond or one.conditions.get("path_exact") not in probes
    ]
    tree["routes"] = in_order(reading, front)
    if front.status:
        tree["status"] = Said(front.status, front.section.location)
    name = free_name(front.section.name or "listener", reading.draft.listeners)
    reading.draft.listeners[name] = tree
    return tree


def _answers(reading: Reading, front: Front, tree: Tree) -> None:
    """Add what is said of the headers of answers."""
    values = cors({name: line.words[3] for name, line in front.browsers.items()})
    if values is not None:
        tree["cors"] = Said(values, front.browsers[f"{PREFIX}allow-origin"].location)
        reading.carry(front.browsers.values())
    else:
        reading.left(front.browsers.values(), "list the allowed origins in 'cors'")
    if front.behind_proxy is not None:
        tree["behind_proxy"] = Said(value=True, place=front.behind_proxy.location)
    if front.answers:
        tree["response_headers"] = Said(front.answers, front.section.location)


def _timers(reading: Reading, front: Front, tree: Tree) -> None:
    values: dict[str, str] = {}
    for name, key in {"http-keep-alive": "keepalive", "http-request": "header"}.items():
        line = front.section.last("timeout", name)
        time = haproxy_time(line.words[2]) if line is not None and len(line.words) > 2 else None
        if line is not None and time:
            values[key] = duration(time)
            reading.ledger.carried(line.location)
            tree["timeouts"] = Said(values, line.location)


def _redirects(reading: Reading, plain: Sequence[tuple[Front, list[Bind]]], secure: Sequence[Tree]) -> None:
    for front, group in plain:
        if len(secure) != 1 or front.redirect is None:
            reading.ledger.left(front.section.location, "the TLS listener that it redirects to was not found")
            if front.redirect is not None:
                reading.ledger.left(front.redirect.location, "no single listener with TLS")
            continue
        reading.carry([front.redirect])
        said = secure[0].get("redirect_from")
        ports: list[Any] = [*(said.value if said else []), *(one.address for one in group)]
        secure[0]["redirect_from"] = Said(ports, group[0].place)
        _acme(front, secure[0])


def _acme(front: Front, tree: Tree) -> None:
    """Take over where ACME's challenges go, which are excepted from the redirect."""
    for route in front.routes:
        path = str(route.conditions.get("path", "")) + str(route.conditions.get("path_exact", ""))
        if (
            path.startswith("/.well-known/acme-challenge")
            and route.backend is not None
            and front.pool_of is not None
        ):
            tree["acme"] = Said({"pool": front.pool_of(route.backend)}, route.line.location)
            if "routes" in tree:
                tree["routes"] = [one for one in tree["routes"] if one.place != route.line.location]
