"""``split_clients`` as a route's ``split``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.nginx.pools.strategies import header_name
from lbgen.imports.nginx.routes.destinations import Destination, destination

if TYPE_CHECKING:
    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive, Level


class Split(NamedTuple):
    """Pools and their shares."""

    destination: Destination
    """That of the first pool."""
    keys: dict[str, Any]
    """What the route says of it."""


def split_of(reading: Reading, level: Level, line: Directive) -> Split | None:
    """Return the pools among which a variable chooses by shares; None where it does not."""
    variable = re.fullmatch(r"(?:(?:https?)://)?\$\{?(\w+)\}?", line.value)
    block = reading.splits.get(f"${variable[1]}") if variable else None
    if block is None:
        return None
    shares: dict[str, Fraction] = {}
    found: Destination | None = None
    for entry in block.block or ():
        scheme = "" if "://" in entry.value else line.value.partition("://")[0] + "://"
        one = destination(reading, level, line._replace(args=(scheme + entry.value,)))
        share = _share(entry.name, shares)
        if one is None or one.uri or share is None:
            return None
        shares[one.pool] = shares.get(one.pool, Fraction(0)) + share
        found = found or one
    if found is None or len(shares) < 2:
        return None
    reading.carry([block, *(block.block or ())])
    least = max(share.denominator for share in shares.values())
    keys: dict[str, Any] = {"split": {pool: int(share * least) for pool, share in shares.items()}}
    header = re.fullmatch(r"\$\{?http_(\w+)\}?", block.value)
    if header:
        keys["by"] = {"header": header_name(header[1])}
    elif not re.fullmatch(r"\$\{?(?:request_id|msec)\}?", block.value):
        reading.ledger.differs(block.location, f"by {block.value} before: each request is dealt out anew")
    return Split(found, keys)


def _share(text: str, before: dict[str, Fraction]) -> Fraction | None:
    """Return the percent of an entry, '*' being the rest."""
    if text == "*":
        return Fraction(100) - sum(before.values(), Fraction(0))
    number = re.fullmatch(r"(\d+(?:\.\d{1,2})?)%", text)
    return Fraction(number[1]) if number else None
