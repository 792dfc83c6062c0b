"""Who may call: clients by the sha256 of their keys, which a script knows from a file of its own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lbgen.model import Secret
from lbgen.strategies.session import session_of
from lbgen.targets.envoy.guards.access import networks_of
from lbgen.targets.envoy.language.words import Node, header, socket, typed
from lbgen.targets.envoy.listeners.filters import lua
from lbgen.targets.envoy.pools.server_tls import verified
from lbgen.targets.envoy.pools.strategies import key_header
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import ExternalAuth, Listener
    from lbgen.targets.envoy.assembly import Assembly

_RBAC = "envoy.extensions.filters.http.rbac.v3"


def auth_of(made: Assembly, listener: Listener) -> Node:
    """Return what a listener's host tells the script."""
    auth = listener.auth
    words: dict[str, str | int | bool] = {"header": auth.header.lower(), "required": auth.required}
    if {client.name for client in made.fleet.clients} - set(auth.clients):
        words["clients"] = f",{','.join(auth.clients)},"
    words["upstream"] = "set" if isinstance(auth.upstream, Secret) else auth.upstream
    if isinstance(auth.upstream, Secret):
        words["value"] = value_name(made, auth.upstream)
    if auth.except_from:
        words["except"] = True
    if any(_by_client(made, listener)):
        words["keyed"] = key_header("client")
    return lua(**words)


def external_of(listener: Listener, external: ExternalAuth) -> Node:
    """Return what a listener's host tells the script that asks an external service."""
    address, path = _asked(external)
    words: dict[str, str | int | bool] = {
        "cluster": external_cluster(listener),
        "host": str(address),
        "path": path,
        "forward": ",".join(map(str.lower, external.forward)),
    }
    if listener.auth.except_from:
        words["except"] = True
    return lua(**words)


def external_cluster(listener: Listener) -> str:
    """Return the name of the cluster with a listener's external service."""
    return f"lb:auth:{listener.name}"


def external_clusters(made: Assembly) -> Iterator[Node]:
    """Yield the cluster of each external service."""
    for listener in made.fleet.listeners:
        external = listener.auth.external
        if external is None:
            continue
        address, _ = _asked(external)
        name = external_cluster(listener)
        endpoint = {"endpoint": {"address": socket(address), "hostname": address.host}}
        node: Node = {
            "#": f"Authentication of {listener.name}.",
            "name": name,
            "type": "STRICT_DNS" if address.is_name else "STATIC",
            "connect_timeout": "3s",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        }
        yield node | (verified(made) if external.url.startswith("https:") else {})


def _asked(external: ExternalAuth) -> tuple[Address, str]:
    url = urlsplit(external.url)
    port = url.port or (443 if url.scheme == "https" else 80)
    return Address(url.hostname or "", port), url.path + (f"?{url.query}" if url.query else "") or "/"


def external_changes(made: Assembly, listener: Listener) -> tuple[list[Node], list[str]]:
    """Return what servers see of keys that an external service knows: headers that are set, and removed."""
    auth = listener.auth
    if auth.external is None or auth.upstream == "pass":
        return [], []
    removed = list(dict.fromkeys(("authorization", "x-api-key", auth.header.lower())))
    if not isinstance(auth.upstream, Secret):
        return [], removed
    return [header("authorization", f"Bearer {made.resolve(auth.upstream)}")], removed


def _by_client(made: Assembly, listener: Listener) -> Iterator[bool]:
    yield any(len(route.split) > 1 and route.split_by == "client" for route in listener.routes)
    for pool in made.fleet.pools_of(listener):
        by = session_of(pool)
        yield bool(by and by.client)


def except_of(listener: Listener) -> Node:
    """Return what looks whether a request comes from an address that needs no key.

    In the shadow: it refuses nobody, and leaves a note for the script.
    """
    policy = {"permissions": [{"any": True}], "principals": [_networks(listener.auth.except_from)]}
    rules = {"action": "ALLOW", "policies": {"known": policy}}
    rbac = typed(f"{_RBAC}.RBAC", shadow_rules=rules, shadow_rules_stat_prefix="lb_")
    del rbac["@type"]
    return typed(f"{_RBAC}.RBACPerRoute", rbac=rbac)


def addresses_of(listener: Listener) -> Node:
    """Return what refuses requests by their address: those of `deny`, and those that `allow` leaves out."""
    allowed = _networks(listener.allow) if listener.allow else {"any": True}
    if listener.deny:
        # Behind proxies, who has an address that cannot be read is 0.0.0.0, and may be of a denied network.
        unread = ("0.0.0.0/32",) if listener.trusted_proxies and not listener.accept_proxy else ()
        both = [allowed, {"not_id": _networks((*listener.deny, *unread))}]
        allowed = {"and_ids": {"ids": both}}
    policies = {"allowed": {"permissions": [{"any": True}], "principals": [allowed]}}
    rbac = {"rules": {"action": "ALLOW", "policies": policies}}
    return typed(f"{_RBAC}.RBACPerRoute", rbac=rbac)


def _networks(networks: Iterable[str]) -> Node:
    return {"or_ids": {"ids": networks_of(networks)}}


def value_name(made: Assembly, secret: Secret) -> str:
    """Return the name by which the script knows the value of a secret."""
    return f"value-{upstream_values(made).index(secret) + 1}"


def upstream_values(made: Assembly) -> list[Secret]:
    """Return the keys that servers see in place of their clients'."""
    found = [one.auth.upstream for one in made.fleet.listeners if isinstance(one.auth.upstream, Secret)]
    return list(dict.fromkeys(found))


def digests(made: Assembly) -> dict[str, str]:
    """Return the digest of every key, and whose it is."""
    return {
        hashlib.sha256(made.resolve(key).encode()).hexdigest(): client.name
        for client in made.fleet.clients
        for key in client.keys
    }
