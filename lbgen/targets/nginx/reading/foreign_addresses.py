"""The addresses in an nginx.conf that somebody else wrote: what it listens on and passes to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lbgen.readers.nginx import Directive

PASSES = ("proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass")
_PORTS = {"http": 80, "grpc": 80, "https": 443, "grpcs": 443}


class Passed(NamedTuple):
    """What a directive passes requests to."""

    scheme: str
    host: str
    """An upstream's name, or an address; empty: a variable decides."""
    rest: str


def passed(one: Directive) -> Passed:
    """Return the parts of a ``proxy_pass`` and its like."""
    scheme, mark, rest = one.value.rpartition("://")
    if rest.startswith("unix:"):
        host, colon, uri = rest.removeprefix("unix:").partition(":")
        return Passed(scheme, f"unix:{host}", colon + uri)
    host, slash, uri = rest.partition("/")
    return Passed(scheme if mark else "", "" if "$" in host else host, slash + uri)


def address_of(host: str, scheme: str = "http") -> str:
    """Return an address as fleets write it: with its port, in lower case."""
    if host.startswith("unix:") or re.search(r":[^:\]]+$", host):
        return host if host.startswith("unix:") else host.lower()
    return f"{host.lower()}:{_PORTS.get(scheme, 80)}"


def bind_of(one: Directive) -> str:
    """Return a listen address, the same for those that mean the same."""
    word = one.value
    if word.startswith("unix:"):
        return word
    if word.isdigit() or word.startswith("$"):
        word = f"*:{word}"
    elif not re.search(r":[^:\]]+$", word):
        word = f"{word}:80"
    return re.sub(r"^(?:0\.0\.0\.0)?:(?=[^:]+$)", "*:", word)
