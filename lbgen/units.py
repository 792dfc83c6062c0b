"""Durations, sizes, rates, addresses and ranges: how they are written and read.

Everything is parsed once into a plain number in one unit (milliseconds, bytes)
and printed with an explicit unit, because the targets disagree about bare
numbers: NGINX reads ``60`` as seconds, HAProxy as milliseconds.
Each parser raises `ValueError` with a sentence fit for the user.
"""

from __future__ import annotations

import re
from functools import cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

MAX_DURATION_MS = 2_073_600_000
"""24 days. HAProxy's timers end at 2147483647 ms, about 24.8 days (seen on 2.6)."""

_DURATION_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": 1024,
    "kb": 1024,
    "kib": 1024,
    "m": 1024**2,
    "mb": 1024**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gb": 1024**3,
    "gib": 1024**3,
}
_RATE_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_LONGEST_SOCKET = 107
"""Bytes: what Linux has room for in the address of a Unix socket, but for the NUL at its end."""
MAX_RANGE = 65_536
"""The most addresses that ranges of one entry may expand to."""


@cache
def _pattern(regex: str) -> re.Pattern[str]:
    # Compiled at first use: a regex costs 0.1 to 0.3 ms, which start-up need not pay.
    return re.compile(regex, re.ASCII)  # "٣" is a digit to \d otherwise


def parse_duration(text: str | int) -> int:
    """Return milliseconds for ``250ms``, ``90s``, ``10m``, ``1h``, ``2d`` or a number of seconds."""
    match = _pattern(r"(\d{1,12})(ms|s|m|h|d)?").fullmatch(str(text))
    if not match:
        raise ValueError(f"'{text}' is not a duration: write a whole number with ms, s, m, h or d")
    value = int(match[1]) * _DURATION_UNITS[match[2] or "s"]
    if value > MAX_DURATION_MS:
        raise ValueError(f"'{text}' is longer than 24 days, which HAProxy's timers cannot hold")
    return value


def format_duration(milliseconds: int) -> str:
    """Return the shortest exact form, always with a unit that both targets read alike."""
    if milliseconds == 0:
        return "0s"
    for unit in ("h", "m", "s"):
        size = _DURATION_UNITS[unit]
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def parse_size(text: str | int) -> int:
    """Return bytes for ``64MiB``, ``64MB``, ``64m`` (all binary, as both targets count) or a number."""
    match = _pattern(r"(\d{1,15})\s?([A-Za-z]{0,3})").fullmatch(str(text))
    factor = _SIZE_UNITS.get(match[2].lower()) if match else None
    if not match or factor is None:
        raise ValueError(f"'{text}' is not a size: write a whole number with KiB, MiB or GiB")
    return int(match[1]) * factor


def format_size(size: int) -> str:
    """Return the shortest exact form in binary units, as the fleet file reads it."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


class Rate(NamedTuple):
    """So many requests in so many seconds."""

    requests: int
    seconds: int

    def __str__(self) -> str:
        names = {value: name for name, value in _RATE_SECONDS.items()}
        return f"{self.requests}/{names[self.seconds]}"


def parse_rate(text: str) -> Rate:
    """Return the rate for ``10/s``, ``600/m`` or ``1000/h``."""
    match = _pattern(r"(\d{1,9})/(s|m|h)").fullmatch(str(text))
    if not match or int(match[1]) == 0:
        raise ValueError(f"'{text}' is not a rate: write a number of requests per s, m or h: 600/m")
    return Rate(int(match[1]), _RATE_SECONDS[match[2]])


UNIX = "unix:"
"""What the address of a Unix socket begins with, in the fleet file and in NGINX's."""


class Address(NamedTuple):
    """A host (name, IPv4 or IPv6 without brackets) and a port; or the path of a Unix socket and 0."""

    host: str
    port: int

    def __str__(self) -> str:
        if self.is_unix:
            return f"{UNIX}{self.host}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_name(self) -> bool:
        """True when the host must be looked up."""
        return not is_ip(self.host) and not self.is_unix

    @property
    def is_unix(self) -> bool:
        """True for a Unix socket."""
        return self.host.startswith("/")


def is_ip(host: str) -> bool:
    """Tell whether a host is an IPv4 or IPv6 address rather than a name."""
    return ":" in host or bool(_pattern(r"[0-9.]+").fullmatch(host))


def parse_port(text: str | int) -> int:
    """Return a port from 1 to 65535 written in plain decimal digits."""
    # HAProxy takes '+80' as an offset and '08000' as 8000 (seen on 2.6): refuse both.
    if not _pattern(r"[1-9][0-9]{0,4}").fullmatch(str(text)) or int(text) > 65_535:
        raise ValueError(f"'{text}' is not a port: write a number from 1 to 65535")
    return int(text)


def parse_host(text: str) -> str:
    """Return a host name, IPv4 or bracketed IPv6 address in its normal form."""
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1])
    if _pattern(r"[0-9.]+").fullmatch(text):
        return _ipv4(text)
    labels = text.rstrip(".").split(".")
    label_pattern = _pattern(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
    if len(text) <= 253 and all(label_pattern.fullmatch(label) for label in labels):
        return text
    return _bad_host(text)


def parse_address(text: str) -> Address:
    """Return the address for ``host:port``, ``10.0.0.7:8000`` or ``[fd00::2]:8000``."""
    if text.startswith((UNIX, "unix@", "/")):
        raise ValueError(f"'{text}' is a Unix socket, which only servers may have: write host:port")
    if "://" in text:
        raise ValueError(f"'{text}' is a URL: write only host:port, and use 'tls' for https")
    if "/" in text:
        raise ValueError(f"'{text}' has a path: write only host:port; a path is a route's 'add_prefix'")
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        raise ValueError(f"'{text}' has no port: write host:port")
    if ":" in host and not host.startswith("["):
        raise ValueError(f"'{text}' is ambiguous: write an IPv6 address in brackets, [{host}]:{port}")
    return Address(parse_host(host), parse_port(port))


def parse_server(text: str) -> Address:
    """Return the address of a server: as `parse_address`, or ``unix:/run/vllm/0.sock``."""
    if not text.startswith((UNIX, "unix@", "/")):
        return parse_address(text)
    path = text.removeprefix(UNIX)
    if not text.startswith(f"{UNIX}/"):
        form = "unix:/run/vllm/0.sock"
        raise ValueError(
            f"'{text}' is no address of a Unix socket: that is {UNIX} and an absolute path, {form}"
        )
    if len(path) > _LONGEST_SOCKET:
        raise ValueError(f"'{text}' is longer than a socket's path may be: {_LONGEST_SOCKET} bytes")
    if not _pattern(r"(/(?!\.{1,2}(?:/|$))[A-Za-z0-9._@+-]+)+").fullmatch(path):
        raise ValueError(f"'{text}' is no path that every target reads: letters, digits and . _ @ + - alone")
    return Address(path, 0)


def expand_ranges(text: str) -> list[str]:
    """Return every text that the ranges of ``gpu-[0-3]:8000`` stand for, in order.

    A range is ``[first-last]``, both decimal; leading zeros pad (``[00-15]``).
    Brackets that hold an IPv6 address are left alone.
    """
    match = _pattern(r"\[(\d{1,9})-(\d{1,9})\]").search(text)
    if not match:
        return [text]
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ValueError(f"the range {match[0]} runs backwards")
    if last - first >= MAX_RANGE:
        raise ValueError(f"the range {match[0]} has more than {MAX_RANGE} members")
    width = len(match[1]) if match[1].startswith("0") else 0
    rest = expand_ranges(text[match.end() :])
    if (last - first + 1) * len(rest) > MAX_RANGE:
        raise ValueError(f"'{text}' stands for more than {MAX_RANGE} addresses")
    head = text[: match.start()]
    return [f"{head}{number:0{width}d}{tail}" for number in range(first, last + 1) for tail in rest]


def _ipv4(text: str) -> str:
    # Both targets accept '10.10.188' as 10.10.0.188 (seen on 1.22 and 2.6): four octets only.
    try:
        return str(IPv4Address(text))
    except AddressValueError:
        form = "four numbers from 0 to 255 with dots between, none with a leading zero"
        raise ValueError(f"'{text}' is not an IPv4 address: that is {form}") from None


def _ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError(f"'{text}' has a zone, which the targets cannot use")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        form = "eight groups of up to four digits 0 to f, where '::' may once stand for groups of zeros"
        raise ValueError(f"'{text}' is not an IPv6 address: that is {form}") from None
    return str(address.ipv4_mapped or address)


def _bad_host(text: str) -> str:
    raise ValueError(f"'{text}' is not a host name or an IP address")
