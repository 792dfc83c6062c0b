"""What all parts of reading an NGINX configuration share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.draft import GENERATED, free_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.imports.draft import Draft, Said, Tree
    from lbgen.imports.ledger import Ledger
    from lbgen.problems import Location
    from lbgen.readers.nginx import Directive, Level, Nginx


class Use(NamedTuple):
    """What one location says of the pool that it sends to: values by key of the pool, with their place."""

    route: dict[str, Any]
    """The route of the fleet file; it takes the timeouts that not all locations of the pool share."""
    values: dict[str, Said]
    timeouts: dict[str, Said]


class Reading:
    """The configurations that were named, and the draft that becomes of them."""

    def __init__(self, configurations: Sequence[Nginx], draft: Draft, ledger: Ledger) -> None:
        self.configurations = configurations
        self.draft = draft
        self.ledger = ledger
        self.upstreams: dict[str, Directive] = {}
        self.maps: dict[str, Directive] = {}
        self.splits: dict[str, Directive] = {}
        tables = {"upstream": self.upstreams, "map": self.maps, "split_clients": self.splits}
        for one, level in self.directives(*tables):
            if level.around("stream") is None and one.args:
                tables[one.name][one.args[-1]] = one
        self.pools: dict[str, str] = {}
        """Pools by the name of the upstream, or by the address that is called."""
        texts = [text for one in configurations for text in one.texts.values()]
        self.generated = any(text.startswith(GENERATED) for text in texts)
        self.uses: dict[str, list[Use]] = {}

    def directives(self, *names: str) -> Iterator[tuple[Directive, Level]]:
        """Yield the directives of these names, and the block that each stands in."""
        for configuration in self.configurations:
            yield from configuration.directives(*names)

    def levels(self, *names: str) -> Iterator[Level]:
        """Yield the blocks of these names, but for those of TCP proxies."""
        for configuration in self.configurations:
            for level in configuration.levels(*names):
                if level.around("stream") is None and level.around("mail") is None:
                    yield level

    def new_pool(self, key: str, name: str) -> Tree:
        """Return a new pool under a free name."""
        self.pools[key] = free_name(name, self.draft.pools)
        tree: Tree = {}
        self.draft.pools[self.pools[key]] = tree
        return tree

    def carry(self, directives: Iterable[Directive]) -> None:
        """Note that these are in the fleet."""
        for one in directives:
            self.ledger.carried(one.location)

    def left(self, directives: Iterable[Directive], reason: str) -> None:
        """Note that these were not carried over."""
        for one in directives:
            self.ledger.left(one.location, reason)

    def place(self, directive: Directive | None) -> Location | None:
        """Return where a directive stands."""
        return directive.location if directive else None


def everything_in(block: Directive) -> Iterator[Directive]:
    """Yield all directives in a block, however deep."""
    for one in block.block or ():
        yield one
        yield from everything_in(one)
