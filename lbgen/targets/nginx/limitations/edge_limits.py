"""What NGINX cannot do for listeners, routes and clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.prefix import prefix_of
from lbgen.targets.nginx.errors import PREFIX
from lbgen.targets.nginx.features import FEATURES, has
from lbgen.targets.nginx.guards.rates import rate_word
from lbgen.targets.nginx.listeners.binds import Binds
from lbgen.targets.nginx.pools.affinity import Homes, homes_of
from lbgen.targets.nginx.routes.routing import covers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.model import Fleet, Listener, Pool, Route
    from lbgen.problems import Path
    from lbgen.targets.verdicts import Verdicts
    from lbgen.units import Rate

HAPROXY = "use the HAProxy target"


def _certificates(fleet: Fleet, verdicts: Verdicts) -> None:
    for listener in fleet.listeners:
        if listener.tls and listener.tls.directory:
            reason = "contains a certificate for each host; NGINX needs them listed"
            instead = "a listener for each host, with its certificate, on the same bind"
            verdicts.refused("tls.directory", (*listener.path, "tls", "directory"), reason, instead)


def _profiles(fleet: Fleet, verdicts: Verdicts) -> None:
    settings = fleet.target("nginx")
    if has(settings.version, "own_protocols"):
        return
    found = {}
    for sharing in Binds(fleet, settings).shared():
        first = sharing[0]
        for listener in sharing[1:]:
            if listener.tls and first.tls and listener.tls.profile != first.tls.profile:
                found[listener.path] = first.name
    for path, name in found.items():
        needed = FEATURES["own_protocols"]
        reason = f"is another than that of '{name}' at the same address, which needs NGINX {needed.since}"
        verdicts.refused("tls.profile", (*path, "tls", "profile"), reason, needed.instead)


def _http2(fleet: Fleet, verdicts: Verdicts) -> None:
    version = fleet.target("nginx").version
    needed = FEATURES["http2_directive"].since
    for listener in fleet.listeners:
        if listener.tls or has(version, "http2_directive"):
            continue
        path = (*listener.path, "http2")
        if listener.http2 and fleet.origins.written(path):
            reason = f"needs TLS, or NGINX {needed}: before it a plain port speaks either HTTP/1 or HTTP/2"
            verdicts.degraded("http2", path, reason, "add tls")
        for route in listener.routes:
            if any(fleet.pool(name).protocol == "grpc" for name in route.pools):
                reason = f"leads to a gRPC pool, which needs HTTP/2 from clients: TLS, or NGINX {needed}"
                verdicts.refused("protocol", route.path, reason, "add tls to the listener")


def _explained(fleet: Fleet, verdicts: Verdicts) -> None:
    for listener in fleet.listeners:
        if listener.explain and not _decided(fleet, listener):
            reason = "has no effect: NGINX does not report why it chose a server; only an njs script does"
            hint = f"targets.nginx.modules: [njs] for pools with the strategy prefix; or {HAPROXY}"
            verdicts.degraded("explain", (*listener.path, "explain"), reason, hint)


def _decided(fleet: Fleet, listener: Listener) -> bool:
    settings = fleet.target("nginx")
    pools = [pool for pool in fleet.pools_of(listener) if prefix_of(pool)]
    return any(homes_of(fleet, pool, settings) is Homes.SCRIPT for pool in pools)


def _rewrites(fleet: Fleet, verdicts: Verdicts) -> None:
    for route in _routes(fleet):
        grpc = any(fleet.pool(name).protocol == "grpc" for name in route.pools)
        for key in ("strip_prefix", "add_prefix"):
            if grpc and getattr(route, key):
                reason = "is not supported for gRPC, whose paths are the names of its methods"
                verdicts.refused(key, (*route.path, key), reason, "a route without it")


def _server_header(fleet: Fleet, verdicts: Verdicts) -> None:
    holders: list[Pool | Listener | Route] = [*fleet.pools, *fleet.listeners, *_routes(fleet)]
    for holder in holders:
        for key in ("set", "remove"):
            for name in getattr(holder.response_headers, key):
                if name.lower() == "server":
                    path = (*holder.path, "response_headers", key)
                    reason = f"cannot have '{name}': NGINX says who it is, without its version"
                    verdicts.refused("response_headers", path, reason, HAPROXY)


def _reserved(fleet: Fleet, verdicts: Verdicts) -> None:
    """Find paths that NGINX's own locations have."""
    for listener in fleet.listeners:
        probes = [
            ((*listener.path, "status", key), getattr(listener.status, key)) for key in ("live", "ready")
        ]
        routes = [
            ((*route.path, "path"), path)
            for route in listener.routes
            for path in (*route.match.paths, *route.match.paths_exact)
        ]
        for path, text in (*probes, *routes):
            if text and covers(PREFIX.rstrip("/"), text):
                reason = f"is below {PREFIX}, where NGINX's own answers are"
                verdicts.refused(str(path[-1]), path, reason, "another path")


def _answers(fleet: Fleet, verdicts: Verdicts) -> None:
    """Find fixed answers that NGINX would make something else of."""
    for route in _routes(fleet):
        status = route.respond.status if route.respond else 200
        if status in {301, 302, 303, 307, 308, 444}:
            reason = (
                f"{status} is not an answer with a body on NGINX: it redirects to the text, or just hangs up"
            )
            verdicts.refused("respond.status", (*route.path, "respond", "status"), reason, "another status")


def _priorities(fleet: Fleet, verdicts: Verdicts) -> None:
    paths = [(*route.path, "priority") for route in _routes(fleet) if route.priority is not None]
    paths += [(*client.path, "priority") for client in fleet.clients if client.priority]
    for path in paths:
        if fleet.origins.written(path):
            reason = "orders waiting requests, and NGINX has no queue"
            verdicts.refused(
                "priority", path, reason, f"a pool with its own cap for each class; or {HAPROXY}"
            )


def _rates(fleet: Fleet, verdicts: Verdicts) -> None:
    for path, rate in _all_rates(fleet):
        if rate.seconds > 60 and rate.requests * 60 % rate.seconds:
            reason = f"{rate} becomes {rate_word(rate)}: NGINX counts by the second or the minute"
            verdicts.degraded("rate", path, reason, "write it per minute")


def _all_rates(fleet: Fleet) -> Iterator[tuple[Path, Rate]]:
    for listener in fleet.listeners:
        yield from (((*limit.path, "rate"), limit.rate) for limit in listener.limits if limit.rate)
    yield from (((*client.path, "rate"), client.rate) for client in fleet.clients if client.rate)


def _metrics(fleet: Fleet, verdicts: Verdicts) -> None:
    if fleet.metrics:
        reason = "only shows connections: open-source NGINX has no statistics for pools"
        verdicts.degraded("metrics", fleet.metrics.path, reason, "count from the access log, or use HAProxy")


def _dollars(fleet: Fleet, verdicts: Verdicts) -> None:
    """Find text that stands where NGINX replaces variables, and cannot be put into one."""
    texts = [(path, text) for listener in fleet.listeners for path, text in _texts(listener)]
    texts.append((("logs", "to"), fleet.logs.to))
    for path, text in texts:
        if text and "$" in text:
            reason = "contains a dollar sign, which NGINX treats as a variable there"
            verdicts.refused(str(path[-1]), path, reason, "write it without")


def _texts(listener: Listener) -> Iterator[tuple[Path, str | None]]:
    for key in ("certificate", "key", "bundle", "client_ca"):
        yield (*listener.path, "tls", key), getattr(listener.tls, key, None)
    if listener.acme:
        yield (*listener.path, "acme", "webroot"), listener.acme.webroot
    if listener.auth.external:
        yield (*listener.path, "auth", "external", "url"), listener.auth.external.url
    for route in listener.routes:
        yield (*route.path, "add_prefix"), route.add_prefix
        if route.respond:
            yield (*route.path, "respond", "content_type"), route.respond.content_type


def _fields(fleet: Fleet, verdicts: Verdicts) -> None:
    """Refuse more fields of forms than one expression of NGINX's length can look for, the model beside."""
    seen: set[str] = set()
    for route in _routes(fleet):
        for name in route.match.form:
            seen.add(name)
            if len(seen) > MOST_FIELDS:
                reason = f"names a field more than the {MOST_FIELDS} of all forms that NGINX looks for"
                verdicts.refused("form", (*route.path, "form", name), reason, HAPROXY)


MOST_FIELDS = 3
"""With the model four: a word of NGINX has less than 4,096 bytes."""


def _routes(fleet: Fleet) -> Iterator[Route]:
    for listener in fleet.listeners:
        yield from listener.routes


RULES: tuple[Callable[[Fleet, Verdicts], None], ...] = (
    _certificates,
    _profiles,
    _http2,
    _rewrites,
    _explained,
    _server_header,
    _reserved,
    _answers,
    _priorities,
    _rates,
    _metrics,
    _dollars,
    _fields,
)
