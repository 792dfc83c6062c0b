"""What targets ask of pools that keep sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.session import SessionParameters

if TYPE_CHECKING:
    from lbgen.model import Fleet, Pool


def session_of(pool: Pool) -> SessionParameters | None:
    """Return the parameters of a pool that keeps sessions; None for others."""
    if pool.strategy.name != "session":
        return None
    return SessionParameters.of(pool.strategy.parameters)


def only_over_tls(fleet: Fleet, pool: Pool) -> bool:
    """Tell whether every client of a pool comes over TLS, so that its cookies need never cross in clear."""
    leading = [
        listener for listener in fleet.listeners if any(pool.name in route.pools for route in listener.routes)
    ]
    return bool(leading) and all(listener.tls for listener in leading)
