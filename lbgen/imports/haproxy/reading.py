"""What all parts of reading a HAProxy configuration share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import GENERATED, free_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.imports.draft import Draft, Tree
    from lbgen.imports.ledger import Ledger
    from lbgen.readers.haproxy import Haproxy, Line, Section


class Reading:
    """The configuration, and the draft that becomes of it."""

    def __init__(self, configuration: Haproxy, draft: Draft, ledger: Ledger) -> None:
        self.configuration = configuration
        self.draft = draft
        self.ledger = ledger
        self.pools: dict[str, str] = {}
        """Pools by the name of the backend."""
        self.prefixes: dict[str, tuple[str, str, Line]] = {}
        """By backend, the prefix that is taken off, the one that comes, and where that is said."""
        self.answers: dict[str, dict[str, Any]] = {}
        """Backends without servers that answer all requests alike."""
        self.refusing: dict[str, Line] = {}
        """By backend, a rule of it that refuses requests, which no pool does."""
        self.settled: set[str] = set()
        """Sections that are something else than a listener, such as a page of statistics."""
        self.generated = any(text.startswith(GENERATED) for text in configuration.texts.values())

    def new_pool(self, backend: str) -> Tree:
        """Return a new pool for a backend."""
        self.pools[backend] = free_name(backend, self.draft.pools)
        tree: Tree = {}
        self.draft.pools[self.pools[backend]] = tree
        return tree

    def carry(self, lines: Iterable[Line | None]) -> None:
        """Note that these are in the fleet."""
        for line in lines:
            if line is not None:
                self.ledger.carried(line.location)

    def left(self, lines: Iterable[Line], reason: str) -> None:
        """Note that these were not carried over."""
        for line in lines:
            self.ledger.left(line.location, reason)

    def taken(self, section: Section, *words: str) -> Line | None:
        """Return the line that holds in a section, noted as carried over."""
        line = section.last(*words)
        self.carry([line])
        return line


def single(values: list[Any]) -> Any:  # noqa: ANN401 - one or several
    """Return the only value, or the list."""
    return values[0] if len(values) == 1 else values
