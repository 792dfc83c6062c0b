"""What one NGINX configuration is put together from, gathered while its parts are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.model import Secret
from lbgen.targets.nginx.language.names import probe_names, upstream_names
from lbgen.targets.nginx.language.quoting import Literals
from lbgen.targets.nginx.language.words import slugs
from lbgen.targets.nginx.views import Map, Pair, Script
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.model import Fleet, HeaderValue, TargetSettings
    from lbgen.targets.nginx.inspection.json_regex import Member
    from lbgen.targets.spec import Secrets


class Assembly:
    """The http level that grows: maps, fixed texts, secret texts; and the names in use."""

    def __init__(
        self, fleet: Fleet, settings: TargetSettings, secrets: Secrets, *, whole: bool = True
    ) -> None:
        self.fleet = fleet
        self.whole = whole
        """True: the http level is ours, so NGINX's own defaults hold where nothing is said."""
        self.settings = settings
        self.upstreams = upstream_names(fleet.pools)
        self.probe_upstreams = probe_names(fleet)
        self.listeners = slugs(listener.name for listener in fleet.listeners)
        self.literals = Literals("lb_text")
        self.secret_literals = Literals("lb_secret")
        self.maps: list[Map] = []
        self.geos: list[Map] = []
        self.splits: list[Map] = []
        self.directives: list[Syntax] = []
        """Single directives of the http level, such as zones."""
        self.resolve = secrets.resolve
        self.scripts: list[Script] = []
        """Functions of the njs file."""
        self.members: list[Member] = []
        """What the map that reads bodies looks for."""
        self.fields: list[str] = []
        """Fields of forms that are looked for."""
        self.uploads = 0
        """The most bytes of JSON where buffers are larger, for uploads; 0: nowhere."""
        self.occasions: set[str] = set()
        """Answers that some server block gives by their status."""
        self._numbers: dict[str, int] = {}
        self.secret_maps: list[Map] = []
        """Maps whose patterns hold keys."""

    def word(self, value: HeaderValue) -> Syntax:
        """Return a text or a secret as one word for a directive that replaces variables."""
        if isinstance(value, Secret):
            return self.secret_literals.word(self.resolve(value), always=True)
        return self.literals.word(value)

    def geo(self, source: str, variable: str, networks: Iterable[str]) -> Syntax:
        """Add a `geo` block that makes the variable 1 for these networks and empty elsewhere."""
        pairs = (
            Pair(Syntax("default"), Syntax('""')),
            *(Pair(Syntax(network), Syntax("1")) for network in networks),
        )
        made = Map(Syntax(source), Syntax(variable), pairs)
        if made not in self.geos:
            self.geos.append(made)
        return made.variable

    def directive(self, text: str) -> None:
        """Add a directive of the http level, without its semicolon, once."""
        if text not in self.directives:
            self.directives.append(Syntax(text))

    def number(self, kind: str) -> int:
        """Return a number not yet given to this kind of variable."""
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def map(self, source: str, variable: str, entries: Iterable[tuple[str, str]], why: str = "") -> Syntax:
        """Add a map, unless one of this name exists, and return its variable.

        Sources, patterns and results are syntax already; `why` becomes a comment.
        """
        name = Syntax(variable)
        if all(known.variable != name for known in self.maps):
            pairs = tuple(Pair(Syntax(pattern), Syntax(result)) for pattern, result in entries)
            self.maps.append(Map(Syntax(source), name, pairs, Syntax(why), volatile="$status" in source))
        return name

    def flag(self, source: str, entries: Iterable[tuple[str, str]]) -> Syntax:
        """Return the variable of a map with this content, a new one or one that is there."""
        pairs = tuple(Pair(Syntax(pattern), Syntax(result)) for pattern, result in entries)
        for known in self.maps:
            if known.source == source and known.entries == pairs:
                return known.variable
        variable = Syntax(f"$lb_if_{self.number('if')}")
        self.maps.append(Map(Syntax(source), variable, pairs))
        return variable
