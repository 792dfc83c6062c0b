"""What all proxied locations of a server block say alike stands once, in the block itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.targets.nginx.views import Shared

if TYPE_CHECKING:
    from lbgen.targets.nginx.views import Location, Proxy, Site


def with_shared(site: Site) -> Site:
    """Move the headers that most lines say to the block, as long as nobody's `raw` lines add to them."""
    ways = [way for location in site.locations if (way := _sharing(location))]
    if not ways:
        return site
    count = Counter((way.headers, way.hide) for way in ways)
    headers, hide = max(count, key=lambda said: count[said] * len(said[0]))
    shared = Shared(headers, hide, ways[0].buffer)
    return site._replace(shared=shared).each(lambda location: _inheriting(location, shared))


def _sharing(location: Location) -> Proxy | None:
    way = location.proxy
    return way if way and way.words == "proxy" and not location.extra else None


def _inheriting(location: Location, shared: Shared) -> Location:
    # NGINX inherits headers all or none.
    way = _sharing(location)
    if way is None:
        return location
    return location._replace(
        proxy=way._replace(
            headers=() if way.headers == shared.headers else way.headers,
            hide=() if way.hide == shared.hide else way.hide,
            buffer=0 if way.buffer == shared.buffer else way.buffer,
        )
    )
