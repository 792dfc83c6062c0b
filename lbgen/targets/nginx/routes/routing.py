"""Which location takes which request: routes as locations, in the order of the fleet's rules.

A path is a `location`. Where several routes fit one path by their other conditions, the location asks a map,
whose source is the row of all conditions' values, and sends the request on to a named location.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from lbgen.targets.nginx.inspection import models
from lbgen.targets.nginx.language.quoting import quote_plain, regex_word
from lbgen.targets.nginx.language.words import unique
from lbgen.targets.nginx.routes import conditions
from lbgen.targets.nginx.routes.destinations import Destinations
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener, Route
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.nginx.listeners.frame import Frame
    from lbgen.targets.nginx.views import Location


_HEADERS = 65_536
"""Bytes that a request may have beside its body."""


class Spot(NamedTuple):
    """A place in the tree of paths: an exact path, or a prefix of whole segments (without its last slash)."""

    path: str
    exact: bool


class Candidate(NamedTuple):
    """A route that may take a request at a spot."""

    route: Route
    rank: tuple[bool, int, int, int]
    """Smaller goes first."""


def route_locations(made: Assembly, listener: Listener, frame: Frame) -> Iterator[Location]:
    """Yield the locations of a listener's routes."""
    # Names tell routes apart: those that follow from the pools' models share one place in the file.
    names = unique(route.name for route in listener.routes)
    routes = (route._replace(name=name) for route, name in zip(listener.routes, names, strict=True))
    listener = listener._replace(routes=tuple(routes))
    destinations = Destinations(made, frame)
    spots = _spots(listener)
    for spot in spots:
        yield from _at(made, spot, spots, candidates(listener, spot), destinations)
    yield from destinations.locations()


def candidates(listener: Listener, spot: Spot) -> tuple[Candidate, ...]:
    """Return the routes that may take a request at this spot, best first, none after one that takes all."""
    found = []
    for order, route in enumerate(listener.routes):
        rank = _path_rank(route, spot)
        if rank is not None:
            found.append(Candidate(route, (*rank, -route.match.conditions, order)))
    found.sort(key=lambda candidate: candidate.rank)
    for number, candidate in enumerate(found):
        if candidate.route.match.conditions == 0:
            return tuple(found[: number + 1])
    return tuple(found)


def _spots(listener: Listener) -> tuple[Spot, ...]:
    spots = dict.fromkeys([Spot("", exact=False)])
    for route in listener.routes:
        spots.update(dict.fromkeys(Spot(path, exact=True) for path in route.match.paths_exact))
        spots.update(dict.fromkeys(Spot(path.rstrip("/"), exact=False) for path in route.match.paths))
    return tuple(sorted(spots, key=lambda spot: (not spot.exact, -len(spot.path), spot.path)))


def _path_rank(route: Route, spot: Spot) -> tuple[bool, int] | None:
    """Return how well a route's path fits a spot, smaller is better; None: not at all."""
    match = route.match
    if spot.exact and spot.path in match.paths_exact:
        return False, 0
    prefixes = [path.rstrip("/") for path in match.paths]
    fitting = [len(prefix) for prefix in prefixes if covers(prefix, spot.path)]
    if fitting:
        return True, -max(fitting)
    if match.paths or match.paths_exact:
        return None
    return True, 0


def covers(prefix: str, path: str) -> bool:
    """Tell whether a path is this prefix or lies below it: `/gpt` covers `/gpt/x` and never `/gptx`."""
    return path == prefix or path.startswith(f"{prefix}/")


def _at(
    made: Assembly, spot: Spot, spots: tuple[Spot, ...], fitting: tuple[Candidate, ...], to: Destinations
) -> Iterator[Location]:
    base = _entry(made, fitting, to)
    # NGINX compares paths decoded, with single slashes.
    path = re.sub("/{2,}", "/", unquote(spot.path))
    if spot.exact:
        yield base._replace(match=Syntax(f"= {quote_plain(path)}"))
        return
    if spot.path and Spot(spot.path, exact=True) not in spots:
        yield base._replace(match=Syntax(f"= {quote_plain(path)}"))
    yield base._replace(match=quote_plain(f"{path}/"))


def _entry(made: Assembly, fitting: tuple[Candidate, ...], to: Destinations) -> Location:
    """Return the location's content, its match left open."""
    if not fitting:
        return to.enter_not_found()
    first = fitting[0].route
    if first.match.conditions == 0:
        return to.enter(first)
    reads = any(candidate.route.match.reads_body for candidate in fitting)
    forms = any(candidate.route.match.models or candidate.route.match.form for candidate in fitting)
    if forms:
        made.uploads = max(made.uploads, to.inspect + _HEADERS)
    return to.enter_by(_dispatch(made, fitting, to), reads=reads, forms=forms)


def _dispatch(made: Assembly, fitting: tuple[Candidate, ...], to: Destinations) -> Syntax:
    """Add the map from the row of conditions to the name of a location, and return its variable."""
    needed = [conditions.variables(made, candidate.route.match) for candidate in fitting]
    columns = list(dict.fromkeys(variable for variables in needed for variable in variables))
    otherwise, entries = to.not_found, []
    inside = [candidate.route.match.reads_text for candidate in fitting]
    if any(inside):
        tokens = any(candidate.route.match.max_tokens_over is not None for candidate in fitting)
        columns.insert(0, models.state(made, to.inspect, tokens=tokens))
        otherwise = models.unknown_model(made)
    for number, (candidate, variables) in enumerate(zip(fitting, needed, strict=True)):
        if inside[number] and not any(inside[:number]):
            # Never the wrong pool: what cannot be read is refused, whatever would fit after this.
            entries += [(regex_word(f"~^{state}"), answer) for state, answer in models.REFUSALS.items()]
        row = "".join("1" if column in variables else "." for column in columns)
        if "1" in row:
            entries.append((regex_word(f"~^{row}"), to.name(candidate.route)))
        else:
            otherwise = to.name(candidate.route)
    variable = f"$lb_to_{made.number('to')}"
    return made.map(f'"{"".join(columns)}"', variable, [("default", otherwise), *entries])
