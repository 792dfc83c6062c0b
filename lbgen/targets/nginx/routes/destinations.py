"""Where a route leads: a pool, one of several pools, a fixed answer. Named locations, made when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.errors import NEVER_REACHED, UNANSWERED
from lbgen.targets.nginx.guards.admin import admin_check
from lbgen.targets.nginx.guards.auth import pool_check
from lbgen.targets.nginx.language.quoting import escape_regex, quote, regex_word
from lbgen.targets.nginx.language.words import unique
from lbgen.targets.nginx.pools.proxying import Manner, proxy, seen_host
from lbgen.targets.nginx.pools.sessions import response_headers
from lbgen.targets.nginx.routes.conditions import header_variable
from lbgen.targets.nginx.routes.paths import public, upstream_uri
from lbgen.targets.nginx.routes.response_headers import changed, hidden
from lbgen.targets.nginx.views import NOTHING, Answer, Location, Map, Pair
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Headers, Pool, Respond, Route
    from lbgen.targets.nginx.assembly import Assembly
    from lbgen.targets.nginx.listeners.frame import Frame
    from lbgen.targets.nginx.routes.paths import Public
    from lbgen.targets.nginx.views import Check

# The names of routes are slugs, which have no underscore: what is added behind one cannot be another's name.
TUNNEL = "_tunnel"


class Destinations:
    """The named locations of one listener, whose routes have names of their own."""

    def __init__(self, made: Assembly, frame: Frame) -> None:
        self._made = made
        self._frame = frame
        self.inspect = frame.inspect
        self._uris: dict[str, tuple[Syntax, tuple[Check, ...]]] = {}
        self._publics: dict[tuple[str, str, str], Public | None] = {}
        self._splits: dict[str, Syntax] = {}
        self._located: dict[str, Location] = {}
        self._suffix = _tunnel_suffix(made) if frame.tunnels else ""

    @property
    def not_found(self) -> str:
        """The name of the location for requests that no route fits."""
        return self._failing("lb-not-found", 404)

    def _failing(self, name: str, status: int) -> str:
        """Return the name of a location that ends in the answer for this status."""
        self._located.setdefault(name, Location(Syntax(f"@{name}"), answer=Answer(status)))
        return name

    def enter(self, route: Route) -> Location:
        """Return a location that takes every request to this route, its match left open."""
        plain = route.pool and not route.when_down and not self._tunnels(route)
        plain = plain or (route.respond and not self._frame.access)
        # What is answered where requests enter, a preflight, has the listener's headers alone.
        if plain and not hidden(*self._changes(route)):
            return self._guarded(self._content(route, route.pool, tunnel=False))
        return self.enter_by(Syntax(self.name(route)))

    def enter_by(self, target: Syntax, *, reads: bool = False, forms: bool = False) -> Location:
        """Return a location that takes requests on to the location that a name or variable says.

        `reads`: the body is read first; `forms`: it may be one with files.
        """
        location = Location(
            NOTHING,
            Syntax("" if reads else "No file is looked up: the conditions of routes select a location."),
            headers=self._frame.headers,
            dispatch=Syntax(f"@{target}"),
            reads=reads,
            buffer=self._frame.upload if forms else NOTHING,
        )
        if reads:
            # 403 is not among the pages that lead on: an external authorisation may have said it.
            # Of two lines for one status NGINX takes the first (seen on 1.22.1).
            leads_on = Syntax(f"error_page 404 405 = {location.dispatch}")
            location = location._replace(errors=(leads_on, *self._frame.errors))
        return self._guarded(location)

    def enter_not_found(self) -> Location:
        """Return a location for requests that no route fits."""
        if self._frame.access:
            return self.enter_by(Syntax(self.not_found))
        # Those that say what a page may read are on a preflight's answer, too.
        headers = self._frame.headers if self._frame.listener.cors.origins else ()
        return self._guarded(Location(NOTHING, headers=headers, answer=Answer(404)))

    def name(self, route: Route) -> str:
        """Return the name, perhaps with a variable, of the location that serves this route."""
        base = f"route-{route.name}"
        suffix = self._suffix if self._tunnels(route) else ""
        if route.split:
            return f"{self._split(base, route)}{suffix}"
        self._add(base, route, route.pool)
        return f"{base}{suffix}"

    def locations(self) -> Iterator[Location]:
        """Yield every named location."""
        yield from self._located.values()

    def _guarded(self, location: Location) -> Location:
        return location._replace(
            checks=(*self._frame.checks, *location.checks), access=(*self._frame.access, *location.access)
        )

    def _changes(self, route: Route) -> tuple[Headers, ...]:
        pool = (self._made.fleet.pool(route.pool).response_headers,) if route.pool else ()
        return (*pool, route.response_headers)

    def _tunnels(self, route: Route) -> bool:
        wanted = route.match.websocket
        return bool(self._suffix) and wanted is not False and (self._frame.websocket or bool(wanted))

    def _add(self, name: str, route: Route, pool: str | None) -> None:
        if name in self._located:
            return
        self._located[name] = self._content(route, pool, tunnel=False)._replace(match=Syntax(f"@{name}"))
        if self._tunnels(route):
            twin = f"{name}{TUNNEL}"
            self._located[twin] = self._content(route, pool, tunnel=True)._replace(match=Syntax(f"@{twin}"))

    def _content(self, route: Route, pool: str | None, *, tunnel: bool) -> Location:
        if route.respond:
            said = route.respond
            answer = Answer(said.status, self._body(said), quote(said.content_type))
            headers = changed(self._made, self._frame.headers, route.response_headers)
            return Location(NOTHING, headers=headers, answer=answer)
        assert pool is not None  # noqa: S101 - a route has a pool, a split or an answer
        return self._to_pool(route, self._made.fleet.pool(pool), tunnel=tunnel)

    def _body(self, said: Respond) -> Syntax:
        """Return the word with a fixed answer's body, a variable where some clients get another one."""
        literals = self._made.literals
        if not said.instead:
            # Without a text, what is 400 and more is an error with a page of its own (seen on 1.22.1 to
            # 1.30.6); a variable counts as a text.
            return literals.word(said.body, always=not said.body)
        entries = [
            (regex_word(f"~^{escape_regex(client)}$"), literals.word(body))
            for body, clients in said.instead.items()
            for client in clients
        ]
        return self._made.flag("$lb_client", [("default", literals.word(said.body)), *entries])

    def _to_pool(self, route: Route, pool: Pool, *, tunnel: bool) -> Location:
        checks = (
            *pool_check(self._made, pool),
            *admin_check(self._made, self._frame.listener, route, pool),
        )
        location = Location(NOTHING, pool=quote(pool.name), headers=self._frame.headers, checks=checks)
        if not pool.has_servers:
            if route.when_down and route.when_down != pool.name:
                return location._replace(dispatch=Syntax(f"@{self._fallback(route)}"))
            return location._replace(answer=Answer(503), headers=())
        uri, fits = self._uri(route)
        changes = (pool.response_headers, route.response_headers)
        headers = (*location.headers, *response_headers(self._made, pool))
        known = self._public(route, pool)
        manner = Manner(
            headers=(*self._frame.request_headers, *self._prefix_headers(known)),
            changes=(route.headers,),
            timeouts=route.timeouts,
            uri=uri,
            hide=tuple(dict.fromkeys((*self._frame.hide, *hidden(*changes)))),
            tunnel=tunnel,
        )
        return location._replace(
            checks=(*checks, *fits),
            proxy=proxy(self._made, pool, manner),
            access=known.lines if known else (),
            headers=changed(self._made, headers, *changes),
            errors=self._when_down(route, pool),
            extra=self._frame.extra,
        )

    def _uri(self, route: Route) -> tuple[Syntax, tuple[Check, ...]]:
        if route.name not in self._uris:
            self._uris[route.name] = upstream_uri(self._made, route)
        return self._uris[route.name]

    def _public(self, route: Route, pool: Pool) -> Public | None:
        key = (route.name, pool.host_header, pool.protocol)
        if key not in self._publics:
            known = dict(self._frame.request_headers).get("X-Forwarded-Host", "$lb_host")
            hosts = (known, "$lb_host", seen_host(self._made, pool))
            self._publics[key] = public(self._made, route, hosts, redirects=pool.protocol != "grpc")
        return self._publics[key]

    def _prefix_headers(self, known: Public | None) -> Iterator[tuple[str, str]]:
        if known:
            claimed = dict(self._frame.request_headers).get("X-Forwarded-Prefix", '""')
            before = "" if claimed == '""' else claimed
            yield "X-Forwarded-Prefix", f'"{before}{known.prefix}"'

    def _when_down(self, route: Route, pool: Pool) -> tuple[Syntax, ...]:
        """Return the lines that lead a request that reached no server to another pool.

        Only such a request: after a failed try, `error_page` would send a POST twice (seen on 1.22.1).
        """
        if not route.when_down or route.when_down == pool.name:
            return ()
        fallback = self._fallback(route)
        never_reached = regex_word(NEVER_REACHED[0])
        lines = []
        # Two lines with `=`, since the status is the other pool's: `$status` is already 0 when the name is
        # put together (seen on 1.22.1).
        for status, otherwise in ((502, "lb-bad-gateway"), (504, "lb-gateway-timeout")):
            entries = [("default", self._failing(otherwise, status)), (never_reached, fallback)]
            name = self._made.flag("$upstream_connect_time", entries)
            lines.append(Syntax(f"error_page {status} = @{name}"))
        others = (line for line in self._frame.errors if line != UNANSWERED)
        return (*others, *lines)

    def _fallback(self, route: Route) -> str:
        name = f"route-{route.name}_down"
        self._add(name, route._replace(when_down=None), route.when_down)
        return name

    def _split(self, base: str, route: Route) -> Syntax:
        """Return the variable that names one of the locations that the route's requests are shared out to."""
        if base not in self._splits:
            self._splits[base] = Syntax(f"$lb_split_{self._made.number('split')}")
            self._add_split(base, route)
        return self._splits[base]

    def _add_split(self, base: str, route: Route) -> None:
        targets = unique(route.split)
        entries = []
        for (pool, _), target, percent in zip(
            route.split.items(), targets, percentages(route.split), strict=True
        ):
            name = f"{base}_to_{target}"
            self._add(name, route, pool)
            entries.append(Pair(Syntax(percent), Syntax(name)))
        self._made.splits.append(Map(self._split_source(route), self._splits[base], tuple(entries)))

    def _split_source(self, route: Route) -> Syntax:
        if route.split_by == "request":
            return Syntax("$request_id")
        source = self._frame.split_key
        if route.split_by.startswith("header:"):
            source = header_variable(route.split_by.removeprefix("header:"))
        # Requests without the header spread, instead of all taking one way.
        return self._made.flag(source, [('""', "$request_id"), ("default", source)])


def percentages(shares: dict[str, int] | object) -> list[str]:
    """Return the shares as `split_clients` wants them: hundredths of a percent, the last one the rest."""
    numbers = list(shares.values()) if isinstance(shares, dict) else []
    total = sum(numbers)
    exact = [f"{number * 10_000 // total / 100:.2f}%" for number in numbers[:-1]]
    return [*exact, "*"]


def _tunnel_suffix(made: Assembly) -> str:
    made.map("$http_upgrade", "$lb_tunnel", [("default", '""'), (regex_word("~*^websocket$"), TUNNEL)])
    return "$lb_tunnel"
