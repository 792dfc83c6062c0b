"""Headers of responses that listeners, pools and routes set and remove.

A backend's rules come before a frontend's, so a listener's rule asks whether a pool or a route has had its
say: `txn.lb_own_NAME` says so, for headers that both name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.language.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Headers, Listener
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.language.rules import Rules


def response_rules(rules: Rules, listener: Listener) -> None:
    """Add a listener's changes, which hold for HAProxy's own answers, too."""
    special = _special(rules.made, listener)
    for name, action in _actions(rules.made, listener.response_headers, "http-after-response"):
        rules.add(action, *([f"!{{ var({_own(name)}) -m found }}"] if name.lower() in special else []))


def _special(made: Assembly, listener: Listener) -> set[str]:
    """Return the names, in small letters, of headers of which a pool or a route of the listener says more."""
    changes = [pool.response_headers for pool in made.fleet.pools_of(listener)]
    changes += [route.response_headers for route in listener.routes]
    return {name.lower() for change in changes for name in (*change.remove, *change.set)}


def fixed_rules(rules: Rules, headers: Headers, condition: str) -> None:
    """Add a route's changes of its own fixed answer."""
    for name, action in _actions(rules.made, headers, "http-after-response"):
        rules.add(f"http-request set-var({_own(name)}) bool(true)", condition)
        rules.add(action, condition)


def served_rules(made: Assembly, headers: Headers, condition: str) -> Iterator[str]:
    """Yield the rules of a backend for what its servers answer. `condition`: `` if …``, or empty."""
    common = _common(made)
    for name, action in _actions(made, headers, "http-response"):
        if name.lower() in common:
            yield f"http-response set-var({_own(name)}) bool(true){condition}"
        yield f"{action}{condition}"


def _common(made: Assembly) -> set[str]:
    """Return the names, in small letters, of headers that listeners change."""
    changes = [listener.response_headers for listener in made.fleet.listeners]
    return {name.lower() for change in changes for name in (*change.remove, *change.set)}


def _actions(made: Assembly, headers: Headers, when: str) -> Iterable[tuple[str, str]]:
    for name in headers.remove:
        yield name, f"{when} del-header {quote(name)}"
    for name, value in headers.set.items():
        yield name, f"{when} set-header {quote(name)} {made.word(value)}"


def _own(name: str) -> str:
    return f"txn.lb_own_{name.lower().replace('-', '.')}"
