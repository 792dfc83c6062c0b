"""Numbers, addresses and types in Envoy's spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.targets.envoy.language.yaml_lines import escape_format

if TYPE_CHECKING:
    from lbgen.model import Timeouts
    from lbgen.units import Address

Node = dict[str, Any]
"""A mapping of Envoy's configuration."""

UNBOUNDED = 1_000_000
"""In place of Envoy's own bound of 1024 connections and requests, at which it answers 503 by itself."""


def typed(name: str, /, **fields: Any) -> Node:  # noqa: ANN401 - any value that YAML can hold
    """Return a message with its type, such as ``envoy.config.cluster.v3.Cluster``."""
    return {"@type": f"type.googleapis.com/{name}", **fields}


def duration(milliseconds: int) -> str:
    """Return a time in seconds, as protobuf's JSON form has it."""
    seconds, rest = divmod(milliseconds, 1_000)
    return f"{seconds}.{rest:03}".rstrip("0") + "s" if rest else f"{seconds}s"


def silence(timeouts: Timeouts) -> int:
    """Return the one number for the first byte and for gaps: Envoy's idle timer runs before both."""
    return max(timeouts.first_byte or 0, timeouts.idle or 0)


def socket(address: Address) -> Node:
    """Return a listener's or an endpoint's address."""
    if address.is_unix:
        return {"pipe": {"path": address.host}}
    if address.host == "*":
        # One socket for IPv4 and IPv6.
        return {"socket_address": {"address": "::", "port_value": address.port, "ipv4_compat": True}}
    return {"socket_address": {"address": address.host.strip("[]"), "port_value": address.port}}


def header(name: str, value: str, *, formatted: bool = False) -> Node:
    """Return a header that is set, in place of what is there. `formatted`: the value holds commands."""
    text = value if formatted else escape_format(value)
    return {"header": {"key": name, "value": text}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def cidr(network: str) -> Node:
    """Return a network."""
    address, _, length = network.partition("/")
    return {"address_prefix": address, "prefix_len": int(length or (128 if ":" in address else 32))}


def data(path: str) -> Node:
    """Return a file that Envoy reads."""
    return {"filename": path}


def regex(text: str) -> Node:
    """Return a condition that a text matches as a whole."""
    return {"safe_regex": {"regex": text}}
