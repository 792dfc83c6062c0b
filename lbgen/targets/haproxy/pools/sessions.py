"""Sessions and their servers: a hint by a hash with a bound, or a promise that a table or a cookie keeps.

Names that clients choose are hashed also where they are a promise: requests of a new session that overlap
agree on its server before any is answered, and so do balancers that do not share a table. The table keeps
sessions where they are when servers are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.strategies.session import session_of
from lbgen.targets.common.listeners import only_over_tls
from lbgen.targets.haproxy.inspection.bodies import read_variable
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.pools.learned import PEERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Pool
    from lbgen.strategies.session import SessionParameters

_FACTOR = 150
"""Percent of the average load that a session's server may have before the next one takes over."""
_NAME = "var(txn.lb_session)"
_TABLE = f"stick-table type binary len 20 size 1m expire 8h peers {PEERS}"
"""Entries take about 150 bytes, and the oldest makes room. 8 h: a session outlives a lunch break."""


def remembers(pool: Pool) -> bool:
    """Tell whether a pool's sessions are kept in a table."""
    by = session_of(pool)
    return by is not None and by.strict and not by.insert


def session_lines(fleet: Fleet, pool: Pool, by: SessionParameters) -> Iterator[str]:
    """Yield the lines of a backend that choose a server by session."""
    if by.insert:
        yield "balance leastconn"
        secure = " secure" if only_over_tls(fleet, pool) else ""
        # The value is a digest of the server's address, and the same on every balancer.
        yield f"cookie {by.insert} insert indirect nocache httponly{secure} dynamic"
        yield "dynamic-cookie-key lbgen"
    elif by.learn:
        yield "balance leastconn"
        yield _TABLE
        yield f"stick match {_NAME}"
        yield f"stick store-response {_digest(f'res.fhdr({by.learn})')}"
    else:
        yield from _hashed(by)


def _hashed(by: SessionParameters) -> Iterator[str]:
    # Without a name HAProxy spreads in turn (its manual, `balance hash`).
    yield f"balance hash {_NAME}"
    yield "hash-type consistent wt6 avalanche"
    if by.strict:
        yield _TABLE
        yield f"stick on {_NAME}"
    else:
        # Also the way around a server at its maxconn, where requests would wait till 503 (seen on 2.6).
        yield f"hash-balance-factor {_FACTOR}"


def session_rules(pool: Pool) -> Iterator[str]:
    """Yield the rules of a backend that find a session's name; an empty one is none."""
    by = session_of(pool)
    if by is None or by.insert:
        return
    sample = _sample(pool, by)
    named = "" if by.ip else f" if {{ {sample} -m len gt 0 }}"
    # A digest: names may be longer than a table's key, and alike up to its end, as signed tokens are.
    yield f"http-request set-var(txn.lb_session) {_digest(sample)}{named}"


def _digest(sample: str) -> str:
    return quote(f"{sample},sha1")


def _sample(pool: Pool, by: SessionParameters) -> str:
    if by.cookie:
        return f"req.cook({by.cookie})"
    if by.query:
        return f"url_param({by.query})"
    if by.body:
        return f"var({read_variable(pool, 'member')})"
    if by.ip:
        return "src"
    if by.client:
        return "var(txn.lb_client)"
    return f"req.fhdr({by.header})"
