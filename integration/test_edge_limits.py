"""Limits: how many requests for a client, an address, and in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from integration.edge import Ask, send
from integration.fleets import THREE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.edge import Edge
    from lbgen.lab.boxes import Balancer

OPEN, BY_IP, BY_CLIENT, IN_ALL, TRUSTED, OF_CLIENT = range(8080, 8086)
TRIES = THREE
SECRETS = {"ONE": "sk-one", "TWO": "sk-two", "RATED": "sk-rated"}
MAIN = [{"pool": "main"}]
SLOW = {"rate": "6/m", "burst": 2}
"""Three at once, and the next after ten seconds on NGINX, after half a minute on HAProxy."""


def listener(port: int, *limits: dict[str, Any], keys: bool = False, **fields: Any) -> dict[str, Any]:
    clients = {"clients": "all"} if keys else "none"
    return {"bind": str(port), "auth": clients, "limits": list(limits), "routes": MAIN, **fields}


FLEET: dict[str, Any] = {
    "pools": {"main": {"engine": "vllm", "servers": ["gpu-0:8000"]}},
    "clients": {
        "one": {"key": "env:ONE"},
        "two": {"key": "env:TWO"},
        "rated": {"key": "env:RATED", **SLOW},
    },
    "listeners": {
        "open": listener(OPEN),
        "by-ip": listener(BY_IP, {**SLOW, "per": "ip"}),
        "by-client": listener(BY_CLIENT, {**SLOW, "per": "client"}, keys=True),
        "in-all": listener(IN_ALL, {**SLOW, "per": "total"}, keys=True),
        "trusted": listener(TRUSTED, {**SLOW, "per": "ip"}, trusted_proxies=["10.0.0.0/8"]),
        "of-client": listener(OF_CLIENT, keys=True),
    },
}
ALLOWED = 3


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


def statuses(balancer: Balancer, port: int, asks: Sequence[Ask]) -> list[int]:
    return [send(balancer.address, port, ask).status for ask in asks]


def forged(number: int) -> dict[str, str]:
    address = f"192.0.2.{number}"
    return {"X-Forwarded-For": address, "X-Real-IP": address, "Forwarded": f"for={address}"}


def test_a_rate_per_address_holds_whatever_a_client_claims(edge: Edge) -> None:
    asks = [Ask("/", headers=forged(number)) for number in range(6)]
    for balancer in edge.balancers.values():
        assert statuses(balancer, BY_IP, asks) == [200] * ALLOWED + [429] * 3
    got = edge.same(Ask("/"), BY_IP)
    assert (got.code, got.headers["retry-after"], got.server) == ("rate_limit_exceeded", "1", "")


def test_probes_are_not_limited(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        assert statuses(balancer, BY_IP, [Ask("/lb/live")] * 6) == [200] * 6


def test_a_rate_per_client_is_each_ones_own(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        for name in ("ONE", "TWO"):
            found = statuses(balancer, BY_CLIENT, [Ask("/", headers=key(name))] * 5)
            assert found == [200] * ALLOWED + [429] * 2
    assert edge.same(Ask("/", headers={"Authorization": "Bearer none"}), BY_CLIENT).status == 401


def test_a_rate_in_all_is_shared(edge: Edge) -> None:
    asks = [Ask("/", headers=key(name)) for name in ("ONE", "TWO", "ONE", "TWO", "ONE")]
    for balancer in edge.balancers.values():
        assert statuses(balancer, IN_ALL, asks) == [200] * ALLOWED + [429] * 2


def test_a_clients_own_rate_holds_for_it_alone(edge: Edge) -> None:
    for balancer in edge.balancers.values():
        assert statuses(balancer, OF_CLIENT, [Ask("/", headers=key("RATED"))] * 5) == [200] * 3 + [429] * 2
        assert statuses(balancer, OF_CLIENT, [Ask("/", headers=key("ONE"))] * 5) == [200] * 5


def test_a_trusted_proxys_word_counts(edge: Edge) -> None:
    """Addresses of the test are trusted there: each named client has a rate of its own."""
    for balancer in edge.balancers.values():
        asks = [Ask("/", headers=forged(number)) for number in range(6)]
        assert statuses(balancer, TRUSTED, asks) == [200] * 6
        assert statuses(balancer, TRUSTED, [Ask("/", headers=forged(99))] * 4) == [200] * 3 + [429]
    # The nearest address that is not a trusted proxy's, not what a client wrote before it.
    chain = {"X-Forwarded-For": "192.0.2.200, 192.0.2.201, 10.9.9.9"}
    assert edge.same(Ask("/", headers=chain), TRUSTED).sent("x-forwarded-for") == "192.0.2.201"
