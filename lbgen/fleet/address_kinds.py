"""Kinds of values that say where something is: hosts, ports, networks, log targets."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from lbgen.fields import Text
from lbgen.fleet.kinds import NAME_PATTERN
from lbgen.units import Address, expand_ranges, is_ip, parse_address, parse_host, parse_port, parse_server

if TYPE_CHECKING:
    from lbgen.fields.base import Node, Value


class Addresses(Text):
    """A ``host:port`` or ``unix:PATH`` with ranges, read as ``(address, number in the range or "")``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("an address, host:port or unix:PATH", limit=300, parse=self._expand)

    def _expand(self, text: str) -> list[tuple[Address, str]]:
        if "[" not in text or (text[0] == "[" and text.rfind("[") == 0 and ":" in text[: text.find("]")]):
            return [(parse_server(text), "")]
        return [(parse_server(one), number) for one, number in _numbered(text)]

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": 300, "pattern": r"^unix:/|:(\[?[0-9-]+\]?)$"}

    def written(self, value: Value) -> Value:
        return str(value)

    def hint(self, node: Node) -> str:
        if node.id == "mapping":
            return "write host:port without a space after the colon, or a mapping with the key 'address'"
        return super().hint(node)


def _numbered(text: str) -> list[tuple[str, str]]:
    """Return what the ranges of a text stand for, each with its number: as the range counts, or from 0."""
    texts = expand_ranges(text)
    numbers = [str(index) for index in range(len(texts))]
    start, end = text.find("["), text.rfind("]")
    if text.count("[") == 1 and len(texts) > 1:
        tail = len(text) - end - 1
        numbers = [one[start : len(one) - tail] for one in texts]
    return list(zip(texts, numbers, strict=True))


class Bind(Text):
    """Where a listener listens: a port on every address, or ``host:port``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("a port, or an address and a port", numbers=True, limit=300, parse=self._parsed)

    def _parsed(self, text: str) -> Address:
        host, colon, port = text.rpartition(":")
        if not colon or host in ("", "*"):
            return Address("*", parse_port(port))
        return parse_address(text)

    def schema(self) -> dict[str, Any]:
        text = {"type": "string", "maxLength": 300, "pattern": r"^(.*:)?[1-9][0-9]{0,4}$"}
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, text]}

    def written(self, value: Address) -> Value:
        return value.port if value.host == "*" else str(value)


class OneAddress(Text):
    """One ``host:port``, without ranges."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("an address, host:port", limit=300, parse=parse_address)

    def written(self, value: Address) -> Value:
        return str(value)


def network(text: str) -> str:
    """Return an address or network in its normal form; raises `ValueError`."""
    try:
        return str(ip_network(text)) if "/" in text else str(ip_network(text).network_address)
    except ValueError:
        pass
    try:
        loose = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"'{text}' is not an address or a network such as 10.0.0.0/8") from None
    raise ValueError(f"'{text}' has bits set after its prefix: write {loose}")


def host_pattern(text: str) -> str:
    """Return a host name, perhaps with ``*.`` in front, in small letters; raises `ValueError`."""
    star = "*." if text.startswith("*.") else ""
    return star + parse_host(text.removeprefix("*.")).lower().rstrip(".")


def host_header(text: str) -> str:
    """Return ``client``, ``backend``, or a host with or without a port; raises `ValueError`."""
    name, colon, port = text.rpartition(":")
    if text in ("client", "backend") or not colon or text.endswith("]"):
        return parse_host(text) if text.endswith("]") or not is_ip(text) else text
    parse_host(name)
    parse_port(port)
    return text


def resolver(text: str) -> str:
    """Return the address of a DNS server with its port, by default 53; raises `ValueError`."""
    address = parse_address(text if text.rpartition("]")[2].count(":") else f"{text}:53")
    if address.is_name:
        raise ValueError(f"'{text}' is a host name: write an IP address")
    return str(address)


def log_target(text: str) -> str:
    """Return ``stdout``, ``stderr``, an absolute path, or ``syslog:ADDRESS``; raises `ValueError`."""
    if text in ("stdout", "stderr") or text.startswith("/"):
        return text
    if not text.startswith("syslog:"):
        raise ValueError(f"'{text}' is none of stdout, stderr, an absolute path, syslog:HOST:PORT")
    place = text.removeprefix("syslog:")
    return (
        text
        if place.startswith("/")
        else f"syslog:{parse_address(place if ':' in place else place + ':514')}"
    )


NETWORK = Text("an address or a network such as 10.0.0.0/8", limit=64, parse=network)
HOST_PATTERN = Text("a host name, perhaps *.example.org", limit=255, parse=host_pattern)


def caller(text: str) -> str:
    """Return a network in its normal form, or a client's name; raises `ValueError`."""
    if is_ip(text.partition("/")[0]):
        return network(text)
    if not re.fullmatch(NAME_PATTERN, text):
        raise ValueError(f"'{text}' is neither a client's name nor a network such as 10.0.0.0/8")
    return text


CALLER = Text("a client's name, an address or a network", limit=64, parse=caller)
