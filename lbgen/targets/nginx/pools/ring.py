"""NGINX's consistent hash, to find a key for each server: `hash` knows keys, and no servers.

As ngx_http_upstream_hash_module.c has it, from 1.7.2 on: 160 points for each unit of weight, each the CRC-32
of host, NUL, port and the point before; a key belongs to the first point from its own CRC-32 on.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_POINTS = 160


def keys_of(servers: Iterable[tuple[str, int]]) -> Mapping[str, str]:
    """Return a key for each server, given by address and weight, that NGINX hashes to it."""
    points: dict[int, str] = {}
    names = []
    for address, weight in servers:
        names.append(address)
        for point in _points(address, weight):
            points.setdefault(point, address)
    hashes = sorted(points)
    found: dict[str, str] = {}
    for number in count():
        if len(found) == len(set(names)):
            return found
        place = bisect_left(hashes, zlib.crc32(str(number).encode()))
        found.setdefault(points[hashes[place % len(hashes)]], str(number))
    raise AssertionError


def _points(address: str, weight: int) -> Iterable[int]:
    host, _, port = address.rpartition(":")
    base = zlib.crc32(f"{host}\0{port}".encode())
    before = 0
    for _ in range(_POINTS * weight):
        before = zlib.crc32(before.to_bytes(4, "little"), base)
        yield before
