"""Times and sizes as NGINX and HAProxy write them, in the words of a fleet file."""

from __future__ import annotations

import re
from ipaddress import ip_network

from lbgen.units import format_duration, format_size, parse_duration, parse_size

_NGINX_UNITS = {
    "ms": 1,
    "": 1_000,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_HAPROXY_UNITS = {"us": 0.001, "": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def nginx_time(text: str) -> int | None:
    """Return milliseconds for ``300``, ``10m``, ``1h30m``; None for what is no time, such as a variable."""
    if not re.fullmatch(r"(?:\d+(?:ms|[smhdw])?\s*)+", text, re.ASCII):
        return None
    return sum(int(value) * _NGINX_UNITS[unit] for value, unit in re.findall(r"(\d+)(ms|[smhdw])?", text))


def haproxy_time(text: str) -> int | None:
    """Return milliseconds for ``5000``, ``5s``; None for what is no time."""
    found = re.fullmatch(r"(\d+)(us|ms|[smhd])?", text, re.ASCII)
    return int(int(found[1]) * _HAPROXY_UNITS[found[2] or ""]) if found else None


def duration(milliseconds: int) -> str:
    """Return a time as a fleet file writes it; raises `ValueError` for one that it does not take."""
    text = format_duration(milliseconds)
    parse_duration(text)
    return text


def network(text: str) -> str:
    """Return a network without bits behind its prefix, which both programs ignore."""
    try:
        return str(ip_network(text, strict=False)) if "/" in text else text
    except ValueError:
        return text


def size(text: str) -> str | None:
    """Return a size such as ``50m`` or ``16384`` as a fleet file writes it; None for what is none."""
    try:
        return format_size(parse_size(text))
    except ValueError:
        return None
