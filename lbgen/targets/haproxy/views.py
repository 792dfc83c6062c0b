"""What the templates of HAProxy see: decisions, already made, in the words of the language."""

from __future__ import annotations

from typing import NamedTuple

from lbgen.targets.spec import Syntax

NOTHING = Syntax("")


class Process(NamedTuple):
    """The `global` section."""

    lines: tuple[Syntax, ...]
    descriptors: int
    """Files and connections open at once, for the service manager's limit."""


class Defaults(NamedTuple):
    """The `defaults` section that all others are made from."""

    lines: tuple[Syntax, ...]
    errors: tuple[Syntax, ...]
    """Arguments of `http-error`."""
    raw: tuple[Syntax, ...] = ()


class Section(NamedTuple):
    """A section that is made of lines alone, such as `resolvers`."""

    head: Syntax
    lines: tuple[Syntax, ...]


class Frontend(NamedTuple):
    """One `frontend`: everything that listens on the same addresses."""

    name: Syntax
    binds: tuple[Syntax, ...]
    settings: tuple[Syntax, ...]
    rules: tuple[Syntax, ...]
    """ACLs and rules in the order in which they are tried."""
    backends: tuple[Syntax, ...]
    """`use_backend` and `default_backend`."""
    raw: tuple[Syntax, ...] = ()


class ServerLine(NamedTuple):
    """One `server` of a backend."""

    name: Syntax
    address: Syntax
    parameters: Syntax
    """With a blank in front, or empty."""


class Backend(NamedTuple):
    """One `backend`: a pool."""

    name: Syntax
    settings: tuple[Syntax, ...]
    rules: tuple[Syntax, ...]
    servers: tuple[ServerLine, ...]
    templates: tuple[Syntax, ...] = ()
    """Arguments of `server-template`."""
    raw: tuple[Syntax, ...] = ()


def syntax(*lines: str) -> tuple[Syntax, ...]:
    """Mark lines that our code made."""
    return tuple(map(Syntax, lines))
