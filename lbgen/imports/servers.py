"""A server of a configuration as an entry of a pool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.fleet.text.yaml_flow import Reference
from lbgen.imports.draft import Said
from lbgen.units import UNIX, parse_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.problems import Location

_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_SHORT = 60
"""Characters of a comment that stands behind a server; a longer one stands above."""


def listed(text: str, default_port: int) -> tuple[str | None, str]:
    """Return the address as a fleet has it, or None and why it cannot.

    ``${NAME}``, which the shell or HAProxy fills in, stays a reference.
    """
    probe = _VARIABLE.sub("host", re.sub(r":\$\{?\w+\}?$", ":8000", text))
    if probe.startswith((UNIX, "unix@", "/")):
        text = probe = UNIX + text.removeprefix(UNIX).removeprefix("unix@")
    elif re.fullmatch(r"\[[^]]*\]|[^:]*", probe):
        text, probe = f"{text}:{default_port}", f"{probe}:{default_port}"
    try:
        address = str(parse_server(probe))
    except ValueError as error:
        return None, str(error)
    if probe == text:
        return address, ""
    return Reference(_VARIABLE.sub(r"${\1}", text)), ""


def server_entry(address: str, values: dict[str, Any], place: Location, comments: Sequence[str]) -> Said:
    """Return a server's entry: its address alone, or a mapping where it says more."""
    value: Any = {"address": address, **values} if values else address
    if len(comments) == 1 and len(comments[0]) <= _SHORT:
        return Said(value, place, beside=comments[0])
    return Said(value, place, above=tuple(comments))
