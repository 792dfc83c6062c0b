"""Who may use what a route leads to: asked when the route is known, after keys and bodies were looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy.language.words import Node, cidr, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lbgen.model import Fleet, Pool

_RBAC = "envoy.extensions.filters.http.rbac.v3"
ACCESS = "lb.access"
"""The filter's name."""


def networks_of(networks: Iterable[str]) -> list[Node]:
    """Return these networks as principals."""
    return [{"remote_ip": cidr(network)} for network in networks]


def _client(name: str) -> Node:
    asked = {"filter": "lbgen", "path": [{"key": "client"}], "value": {"string_match": {"exact": name}}}
    return {"sourced_metadata": {"metadata_source": "DYNAMIC", "metadata_matcher": asked}}


def access_filter() -> Node:
    """Return the filter, which refuses nobody where a route does not say so."""
    return {"name": ACCESS, "typed_config": typed(f"{_RBAC}.RBAC")}


def guards_pools(fleet: Fleet, pools: Iterable[Pool]) -> bool:
    """Tell whether anybody is kept from one of these pools, or from its admin paths alone."""
    return any(client.pools for client in fleet.clients) or any(map(is_closed_to_some, pools))


def is_closed_to_some(pool: Pool) -> bool:
    """Tell whether some may call the admin paths of a pool's engine, and others not."""
    return bool(pool.admin.clients or pool.admin.networks)


def access_of(fleet: Fleet, pools: Sequence[Pool], *, admin: bool) -> Node:
    """Return what a way to all of these pools tells the filter; nothing where everybody may go there.

    `admin`: for admin paths alone.
    """
    names = {pool.name for pool in pools}
    barred = [one.name for one in fleet.clients if one.pools and not names <= set(one.pools)]
    policies: Node = {}
    closed = [pool.admin for pool in pools if is_closed_to_some(pool)] if admin else []
    if closed:
        welcome = ([*networks_of(one.networks), *map(_client, one.clients)] for one in closed)
        policies["admin"] = _policy([{"not_id": {"or_ids": {"ids": ids}}} for ids in welcome])
    if barred and pools:
        policies["pools"] = _policy(list(map(_client, barred)))
    if not policies:
        return {}
    rules = {"action": "DENY", "policies": policies}
    return {ACCESS: typed(f"{_RBAC}.RBACPerRoute", rbac={"rules": rules})}


def _policy(principals: list[Node]) -> Node:
    return {"permissions": [{"any": True}], "principals": principals}
