"""A frontend while its rules are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.imports.draft import Said
    from lbgen.imports.haproxy.listeners.conditions import Conditions
    from lbgen.readers.haproxy import Line, Section


class Lead(NamedTuple):
    """A rule that answers requests or sends them to a backend."""

    conditions: dict[str, Any]
    line: Line
    backend: str | None = None
    respond: dict[str, Any] | None = None


class Front:
    """What the rules of a frontend said so far."""

    def __init__(self, section: Section, conditions: Conditions) -> None:
        self.section = section
        self.conditions = conditions
        self.routes: list[Lead] = []
        self.allowed: list[dict[str, Any]] = []
        """Requests that none of these fits are refused; empty: all may pass."""
        self.refusal: tuple[Line, int] | None = None
        self.redirect: Line | None = None
        self.keys: list[Line] = []
        """Rules that ask for keys."""
        self.passing: set[str] = set()
        """The keys that pass."""
        self.clients: list[str] = []
        self.header = "Authorization"
        self.lost: list[Line] = []
        """Rules that restrict access and have no key."""
        self.limits: list[Said] = []
        self.tracked: dict[str, tuple[str, Line]] = {}
        """By counter (``sc0``), what is counted."""
        self.headers: dict[str, Any] = {}
        self.rewrites: list[tuple[list[dict[str, Any]], str, str, Line]] = []
        self.status: dict[str, Any] = {}
        self.websocket: Line | None = None
        self.hsts = False
        self.browsers: dict[str, Line] = {}
        """Headers of answers that are for browsers' cross-origin requests."""
        self.behind_proxy: Line | None = None
        self.answers: dict[str, Any] = {}
        """Changes of the headers of answers."""
        self.networks: dict[str, Said] = {}
        self.pool_of: Callable[[str], str | None] | None = None

    def lead(self, conditions: dict[str, Any], backend: str, line: Line) -> None:
        """Send requests to a backend."""
        self.routes.append(Lead(conditions, line, backend=backend))

    def answer(self, conditions: dict[str, Any], respond: dict[str, Any], line: Line) -> None:
        """Answer requests."""
        self.routes.append(Lead(conditions, line, respond=respond))
