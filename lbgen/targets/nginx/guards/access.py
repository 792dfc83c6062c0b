"""From which addresses requests are taken, and how the client's address is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.language.quoting import regex_word
from lbgen.targets.nginx.language.words import variable
from lbgen.targets.nginx.views import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Listener
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.spec import Syntax

ADDRESS_REFUSED = 470
"""No status of HTTP: the number by which `error_page` knows the answer for addresses that may not come."""


def checks(made: Assembly, listener: Listener) -> Iterator[Check]:
    """Yield the check for the listener's `allow` and `deny`."""
    if not listener.allow and not listener.deny:
        return
    allowed = within(made, listener, listener.allow, "allowed") if listener.allow else "1"
    denied = within(made, listener, listener.deny, "banned") if listener.deny else ""
    name = f"$lb_refused_{variable(made.listeners[listener.name])}"
    entries = [("default", "1"), (regex_word("~^1-$"), "0")]
    yield Check(made.map(f'"{allowed}-{denied}"', name, entries), ADDRESS_REFUSED)


def within(made: Assembly, listener: Listener, networks: Iterable[str], word: str) -> Syntax:
    """Return the variable that is 1 for clients of these networks, else empty.

    `word`: a part of its name, for this set of networks alone.
    """
    listened = variable(made.listeners[listener.name])
    inside = made.geo("$remote_addr", f"$lb_{word}_{listened}", networks)
    if not listener.trusted_proxies or listener.accept_proxy:
        return inside
    # NGINX stops at an element of X-Forwarded-For that is no address, and takes the trusted proxy that
    # sent it for the client (seen on 1.22.1 to 1.30.6): who it really is, nobody knows then.
    proxy = made.geo("$remote_addr", f"$lb_by_proxy_{listened}", listener.trusted_proxies)
    first = regex_word(r"~^1:1:(?<lb_address>[^ ]+) (?:$|\[?\k<lb_address>(?:\]?:\d+|\])?(?:$|[ ,].*[^ ,]$))")
    # An empty last element it passes over, and believes the one before, which the client may have written.
    nobody = regex_word(r"~^\S+ .*[ ,]$")
    entries = [("default", '""'), (nobody, '""'), (regex_word("~^1::"), "1"), (first, "1")]
    source = f'"{inside}:{proxy}:$remote_addr $http_x_forwarded_for"'
    return made.map(source, f"$lb_known_{word}_{listened}", entries)
