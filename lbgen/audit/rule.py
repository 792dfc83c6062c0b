"""What a rule of the audit is, and what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.audit.haproxy_view import HaproxyView
    from lbgen.audit.nginx_view import NginxView
    from lbgen.problems import Location, Severity
    from lbgen.vocabulary import Version


class Running(NamedTuple):
    """Which version of a program reads the files."""

    version: Version | None = None
    """None: not known."""
    package: str = ""
    """The distribution's version of its package; empty: there is none, or it is not known."""


class Finding(NamedTuple):
    """One place where a rule fires."""

    location: Location
    message: str
    """What it does, to whom, with the numbers of the file."""
    write: str
    """The line to write instead, or what else to do."""
    severity: Severity | None = None
    """None: the rule's."""


class AuditRule(NamedTuple):
    """Something that a configuration can say, or leave out, and that hurts inference traffic."""

    code: str
    severity: Severity
    summary: str
    """What it finds, in a line."""
    why: str
    """What it does to whom, with where the numbers are from."""
    rendered: str
    """What lbgen's own files do there."""
    nginx: Callable[[NginxView], Iterator[Finding]] | None = None
    haproxy: Callable[[HaproxyView], Iterator[Finding]] | None = None

    @property
    def targets(self) -> str:
        """The programs whose files it looks at."""
        return ", ".join(name for name, has in (("NGINX", self.nginx), ("HAProxy", self.haproxy)) if has)
