"""A whole HAProxy configuration as the draft of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.haproxy.itself import settle
from lbgen.imports.haproxy.listeners.frontends import read_frontends
from lbgen.imports.haproxy.metrics import read_metrics
from lbgen.imports.haproxy.pools.backend_rules import read_backend_rules
from lbgen.imports.haproxy.pools.backends import read_backends
from lbgen.imports.haproxy.program import read_program
from lbgen.imports.haproxy.reading import Reading

if TYPE_CHECKING:
    from lbgen.imports.draft import Draft
    from lbgen.imports.ledger import Ledger
    from lbgen.readers.haproxy import Haproxy, Line

_SHORT = {"user": 2, "stats": 2, "http-request": 4, "http-response": 3, "acl": 3}
"""Words of a line that are shown where the rest may be a key."""


def read_haproxy(configuration: Haproxy, draft: Draft, ledger: Ledger) -> None:
    """Add what a HAProxy configuration says to a draft, and note what became of each line."""
    reading = Reading(configuration, draft, ledger)
    for section in configuration.sections:
        for line in section.lines:
            ledger.expect(line.location, _shown(line))
    read_backends(reading)
    if reading.generated:
        draft.targets.setdefault("haproxy", {})
        lines = [line for section in configuration.sections for line in section.lines]
        reading.carry(line for line in lines if ledger.is_open(line.location))
        return
    read_metrics(reading)
    for section in configuration.all("backend", "listen"):
        if section.kind == "backend" or not section.own("bind"):
            read_backend_rules(reading, section)
    read_frontends(reading)
    read_program(reading)
    for section in configuration.sections:
        for line in section.lines:
            settle(reading, section, line)


def _shown(line: Line) -> list[str]:
    limit = _SHORT.get(line.words[0], len(line.words))
    return [*line.words[:limit], *(["…"] if len(line.words) > limit else [])]
