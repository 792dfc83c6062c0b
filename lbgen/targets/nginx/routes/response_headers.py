"""Headers of responses that listeners, pools and routes set and remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.language.quoting import header_name
from lbgen.targets.nginx.views import Pair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.model import Headers
    from lbgen.targets.nginx.assembly import Assembly


def merged(*groups: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return headers of which each name stands once; those of a later group win."""
    found = list(groups[0])
    for group in groups[1:]:
        new = list(group)
        names = {pair.name.lower() for pair in new}
        found = [pair for pair in found if pair.name.lower() not in names] + new
    return tuple(found)


def changed(made: Assembly, headers: tuple[Pair, ...], *changes: Headers) -> tuple[Pair, ...]:
    """Return headers that are sent, with changes; later changes win."""
    for change in changes:
        removed = {name.lower() for name in change.remove}
        kept = [pair for pair in headers if pair.name.lower() not in removed]
        new = [Pair(header_name(name), made.word(text)) for name, text in change.set.items()]
        headers = merged(kept, new)
    return headers


def hidden(*changes: Headers) -> tuple[str, ...]:
    """Return the names of headers that a server's own response loses by these changes."""
    return tuple(dict.fromkeys(name for change in changes for name in (*change.remove, *change.set)))
