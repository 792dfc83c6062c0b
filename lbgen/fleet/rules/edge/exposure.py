"""Rules about who can reach what: every open door is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.fleet.rules.rule import Finding, Rule, is_public, routed_pools
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener
    from lbgen.problems import Path

_EVERYBODY = frozenset({"0.0.0.0/0", "::/0"})

_NO_LISTENER = "write 'listeners' with 'auth', 'allow' or a bind to 127.0.0.1"


def _open(listener: Listener) -> bool:
    """Tell whether whoever connects is served."""
    verified = listener.tls is not None and listener.tls.client_ca is not None
    named = listener.allow and not _EVERYBODY & set(listener.allow)
    return not listener.auth.required and not verified and not named


def open_listener(fleet: Fleet) -> Iterator[Finding]:
    """Find listeners that everybody can use."""
    for listener in fleet.listeners:
        # With clients and nothing said about auth, the file is in error already: listener-without-auth.
        undecided = fleet.clients and not fleet.origins.written((*listener.path, "auth"))
        if _open(listener) and is_public(listener.binds) and not undecided:
            binds = ", ".join(map(str, listener.binds))
            written = fleet.origins.written(listener.path)
            message = f"anyone who can reach {binds} can use the fleet: there is no auth"
            yield Finding(_door(fleet, listener), message, "" if written else _NO_LISTENER)


def _door(fleet: Fleet, listener: Listener) -> Path:
    for key in ("auth", "bind"):
        if fleet.origins.written((*listener.path, key)):
            return (*listener.path, key)
    return listener.path


def per_client_without_auth(fleet: Fleet) -> Iterator[Finding]:
    """Find what counts by client where no client is known."""
    pools = {pool.name: pool for pool in fleet.pools}
    for listener in fleet.listeners:
        if listener.auth.required:
            continue
        for limit in listener.limits:
            if limit.per == "client":
                yield Finding(
                    (*limit.path, "per"), "without auth nobody knows which client a request is from"
                )
        for route in listener.routes:
            if route.split_by == "client":
                yield Finding((*route.path, "by"), "without auth nobody knows which client a request is from")
        for name in sorted(routed_pools(listener) & pools.keys()):
            parameters = pools[name].strategy.parameters
            key = "client" if parameters.get("client") else "scope"
            if parameters.get("client") or parameters.get("scope") == "client":
                message = (
                    f"'{listener.name}' leads here without auth: nobody knows which client a request is from"
                )
                yield Finding((*pools[name].path, "strategy", key), message)


def priorities_without_auth(fleet: Fleet) -> Iterator[Finding]:
    """Find client priorities where no listener knows clients."""
    if any(listener.auth.clients for listener in fleet.listeners):
        return
    for client in fleet.clients:
        place = (*client.path, "priority")
        if fleet.origins.written(place):
            message = (
                f"no listener asks for keys, so that '{client.name}' is never recognised and has no priority"
            )
            yield Finding(place, message)


def keys_in_clear(fleet: Fleet) -> Iterator[Finding]:
    """Find keys that cross a network unencrypted."""
    for listener in fleet.listeners:
        asks = listener.auth.clients or listener.auth.external
        if asks and listener.tls is None and not listener.behind_proxy and is_public(listener.binds):
            message = f"clients send their keys to '{listener.name}' unencrypted"
            yield Finding(_door(fleet, listener), message)


def open_metrics(fleet: Fleet) -> Iterator[Finding]:
    """Find a metrics listener that everybody can read."""
    metrics = fleet.metrics
    if metrics is None or not is_public(metrics.binds) or metrics.user:
        return
    if not metrics.allow or _EVERYBODY & set(metrics.allow):
        binds = ", ".join(map(str, metrics.binds))
        message = (
            f"everybody who reaches {binds} sees server names, loads and errors, without 'allow' or 'auth'"
        )
        yield Finding((*metrics.path, "bind"), message)


def unverified_tls(fleet: Fleet) -> Iterator[Finding]:
    """Find TLS to the servers that does not ask who they are."""
    for pool in fleet.pools:
        place = (*pool.path, "tls", "verify")
        if pool.tls is not None and not pool.tls.verify and fleet.origins.written(place):
            yield Finding(
                place, f"prompts go to whoever answers in the name of '{pool.name}', encrypted or not"
            )


def trusted_everybody(fleet: Fleet) -> Iterator[Finding]:
    """Find listeners that take every client's word for its own address."""
    for listener in fleet.listeners:
        for index, network in enumerate(listener.trusted_proxies):
            if network in _EVERYBODY:
                message = (
                    "every client may claim any address in X-Forwarded-For, and has a new limit with each"
                )
                yield Finding((*listener.path, "trusted_proxies", index), message)


def auth_for_nobody(fleet: Fleet) -> Iterator[Finding]:
    """Find exceptions from auth that hold for everybody."""
    for listener in fleet.listeners:
        for index, network in enumerate(listener.auth.except_from):
            if network in _EVERYBODY:
                message = f"'{network}' is everybody: auth asks nobody"
                yield Finding((*listener.path, "auth", "except", index), message)


def one_address_for_all(fleet: Fleet) -> Iterator[Finding]:
    """Find what counts by address behind a proxy that hides the addresses."""
    pools = {pool.name: pool for pool in fleet.pools}
    for listener in fleet.listeners:
        if not listener.behind_proxy or listener.trusted_proxies or listener.accept_proxy:
            continue
        message = "behind a proxy every request comes from its address: all clients are one"
        for limit in listener.limits:
            if limit.per == "ip":
                yield Finding((*limit.path, "per"), message)
        for key in ("allow", "deny"):
            if getattr(listener, key):
                yield Finding((*listener.path, key), message)
        for name in sorted(routed_pools(listener) & pools.keys()):
            if pools[name].strategy.parameters.get("ip"):
                yield Finding((*pools[name].path, "strategy", "ip"), message)


def passed_key(fleet: Fleet) -> Iterator[Finding]:
    """Find keys of clients that are handed on to every server."""
    for listener in fleet.listeners:
        place = (*listener.path, "auth", "upstream")
        if listener.auth.clients and listener.auth.upstream == "pass" and fleet.origins.written(place):
            yield Finding(place, "every server behind this listener sees, and may log, its clients' keys")


def cors_for_everybody(fleet: Fleet) -> Iterator[Finding]:
    """Find listeners without auth that every web page may use."""
    for listener in fleet.listeners:
        for index, origin in enumerate(listener.cors.origins):
            if origin == "*" and _open(listener):
                message = "any web page that somebody inside opens can use the fleet through that browser"
                yield Finding((*listener.path, "cors", "origins", index), message)


def open_admin_paths(fleet: Fleet) -> Iterator[Finding]:
    """Find pools whose engines' admin paths are open to a network."""
    public = {name for one in fleet.listeners if is_public(one.binds) for name in routed_pools(one)}
    for pool in fleet.pools:
        place = (*pool.path, "admin")
        paths = (*ENGINES[pool.engine].admin.all, *ENGINES[pool.engine].admin.changing)
        everybody = pool.admin.open or _EVERYBODY & set(pool.admin.networks)
        if paths and everybody and pool.name in public and fleet.origins.written(place):
            shown = ", ".join(paths[:4])
            message = f"whoever may use '{pool.name}' may call {shown} and {len(paths) - 4} more of its paths"
            yield Finding(place, message.replace(" and 0 more of its paths", ""))


RULES = (
    Rule(
        "open-listener",
        Severity.WARNING,
        "a listener beyond loopback has no auth",
        "Open inference endpoints are found within hours and used by strangers, at your expense and "
        "with access to the models.",
        "write 'auth: {clients: all}' and 'clients', or 'allow' with your networks, or bind to 127.0.0.1; "
        "where the network guards it, 'auth: none  # lbgen: ignore[open-listener]' says so",
        open_listener,
    ),
    Rule(
        "per-client-without-auth",
        Severity.ERROR,
        "something counts by client where a listener knows no clients",
        "Clients are identified by their keys. Without auth no request has a client: all share one "
        "limit, one session or one server.",
        "write 'auth: {clients: all}' in the listener, or count by ip",
        per_client_without_auth,
    ),
    Rule(
        "priorities-without-auth",
        Severity.ERROR,
        "clients have priorities, and no listener asks for keys",
        "A priority belongs to a client's key. If no listener reads keys, batch jobs wait in the "
        "queue like everybody else.",
        "write 'auth: {clients: all}' in the listener, or give routes a priority",
        priorities_without_auth,
    ),
    Rule(
        "keys-in-clear",
        Severity.WARNING,
        "clients send keys to a listener beyond loopback without TLS",
        "Anyone on the network path can read and use a key that is sent without encryption, as well "
        "as prompts and answers.",
        "write 'tls' in the listener; or 'behind_proxy: true' where a proxy in front speaks TLS",
        keys_in_clear,
    ),
    Rule(
        "open-metrics",
        Severity.ERROR,
        "a metrics listener beyond loopback has neither `allow` nor `auth`",
        "HAProxy's statistics and NGINX's status show addresses, loads and errors to anyone who asks.",
        "bind to 127.0.0.1, or write 'allow' with your networks, or 'auth'",
        open_metrics,
    ),
    Rule(
        "unverified-tls",
        Severity.WARNING,
        "`tls.verify: false` in a pool",
        "If the peer's certificate is not verified, anyone who can answer in its place can read the traffic.",
        "write 'ca' with the certificate of your own authority",
        unverified_tls,
    ),
    Rule(
        "trusted-everybody",
        Severity.WARNING,
        "`trusted_proxies` holds every address",
        "A trusted proxy states which address a request comes from. If everybody is trusted, clients "
        "can choose the address by which they are limited.",
        "write only the addresses of your own proxies",
        trusted_everybody,
    ),
    Rule(
        "auth-for-nobody",
        Severity.ERROR,
        "`auth.except` holds every address",
        "The listener looks protected in the file, but no client has to present a key.",
        "write 'auth: none' if that is meant, else the networks that need no key",
        auth_for_nobody,
    ),
    Rule(
        "one-address-for-all",
        Severity.WARNING,
        "something counts or is let in by address behind a proxy, without `trusted_proxies`",
        "All requests then come from the proxy's address: one client uses up the limit of all, or all"
        " sessions stay on one server.",
        "write 'trusted_proxies' with the addresses of the proxies in front",
        one_address_for_all,
    ),
    Rule(
        "passed-key",
        Severity.WARNING,
        "`auth.upstream: pass` hands clients' keys to the servers",
        "Each engine, and its log, then contains keys that are valid for the whole gateway.",
        "write 'upstream: strip', the default, or 'upstream: {set: env:ENGINE_KEY}' where the engine wants "
        "a key",
        passed_key,
    ),
    Rule(
        "open-admin-paths",
        Severity.WARNING,
        "`admin: pass`, or for every address, in a pool that a listener beyond loopback leads to",
        "Engines load and unload models, sleep, empty their caches and delete files for anyone who "
        "asks: one request can take a server away from all other clients.",
        "leave 'admin' out, and call the servers directly; or write 'admin: {clients: […]}' with "
        "those who may",
        open_admin_paths,
    ),
    Rule(
        "cors-for-everybody",
        Severity.WARNING,
        "`cors.origins` is `*` on a listener without auth",
        "Any web page that is open in a browser inside the network can use the API through that "
        "browser; CORS is what prevents it.",
        "name the origins that you mean",
        cors_for_everybody,
    ),
)
