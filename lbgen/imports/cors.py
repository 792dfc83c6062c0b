"""``Access-Control-…`` headers that a balancer adds to answers, as ``cors`` of a listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "access-control-"
_LISTS = {"allow-methods": "methods", "allow-headers": "headers", "expose-headers": "expose"}


def cors(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """Return ``cors`` for headers by name in small letters; None where the origins are not known before."""
    origin = headers.get(f"{PREFIX}allow-origin", "")
    if not origin or "$" in origin or "%" in origin:
        return None
    values: dict[str, Any] = {"origins": [origin]}
    for name, key in _LISTS.items():
        words = headers.get(PREFIX + name, "").replace(",", " ").split()
        if words and "*" not in words:
            values[key] = words
    if headers.get(f"{PREFIX}allow-credentials", "").lower() == "true" and origin != "*":
        values["credentials"] = True
    age = headers.get(f"{PREFIX}max-age", "")
    if age.isdecimal():
        values["max_age"] = f"{age}s"
    return values
