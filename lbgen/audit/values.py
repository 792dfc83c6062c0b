"""Times and sizes as NGINX and HAProxy write them: a bare number is seconds here and milliseconds there."""

from __future__ import annotations

import re

_NGINX_UNITS = {
    "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    "M": 2_592_000_000, "y": 31_536_000_000, "": 1_000,
}  # fmt: skip
_HAPROXY_UNITS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def nginx_time(text: str) -> int | None:
    """Return milliseconds for ``60``, ``10m`` or ``1h30m``; None for anything else, such as a variable."""
    parts = re.findall(r"(\d+)(ms|[smhdwMy]|)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        return None
    return sum(int(number) * _NGINX_UNITS[unit] for number, unit in parts)


def haproxy_time(text: str) -> int | None:
    """Return milliseconds for ``30s`` or ``5000``; None for anything else."""
    match = re.fullmatch(r"(\d+)(us|ms|[smhd]|)", text)
    return int(int(match[1]) * _HAPROXY_UNITS[match[2]]) if match else None


def size(text: str) -> int | None:
    """Return bytes for ``8k``, ``64m`` or ``1048576``; None for anything else."""
    match = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
    return int(match[1]) * _SIZES[match[2]] if match else None


def number(text: str | None) -> int | None:
    """Return a plain number; None for anything else."""
    return int(text) if text and text.isascii() and text.isdecimal() else None
