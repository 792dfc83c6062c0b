"""What a server costs, as the command line says it."""

from __future__ import annotations

import re

from lbgen.problems import LbgenError
from lbgen.simulate.servers.pool import profile_of

MOST = 1_000_000.0
"""An hour of one server costs at most so much."""


def price_of(text: str) -> tuple[str, float]:
    """Return kind and price an hour of ``h100-8b=2.50/h``; raises `LbgenError`."""
    kind, equals, price = text.partition("=")
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(?:/h)?\s*", price, re.ASCII)
    if not equals or not match or float(match[1]) > MOST:
        raise LbgenError(f"'{text}' is not a price: write one such as h100-8b=2.50/h")
    return profile_of("", (kind,)).name, float(match[1])
