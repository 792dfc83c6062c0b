"""What a balancer of a trial runs with: the files that render gives, for the fleet with mapped addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.lab.trial.stage.certificates import client_context, ours, trusting_context
from lbgen.lab.trial.stage.mapping import readdressed
from lbgen.render import render
from lbgen.secret_values import StandInSecrets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lbgen.lab.trial.beside import Beside
    from lbgen.lab.trial.stage.certificates import Bundle
    from lbgen.lab.trial.stage.mapping import Standing
    from lbgen.model import Fleet, Listener, Pool
    from lbgen.render import RenderedFile
    from lbgen.units import Address


class Asked(NamedTuple):
    """Which balancer is wanted, in front of what."""

    target: str
    fleet: Fleet
    pool: Pool
    servers: Mapping[str, Standing]
    agent: Address | None = None
    """Where the agent answers, for `kv_cache`."""


class Serving(NamedTuple):
    """A running balancer."""

    url: str
    tls: ssl.SSLContext | None
    """How the load driver speaks to it."""
    fleet: Fleet
    """As it is tried."""
    files: tuple[RenderedFile, ...]
    changes: Sequence[str] = ()
    """Of a file that lbgen did not write: what a trial changes in it."""

    @classmethod
    def at(cls, address: Address, listener: Listener, bundle: Bundle, made: Ready) -> Serving:
        """Return the one that serves a listener at an address."""
        scheme = "https" if listener.tls else "http"
        return cls(f"{scheme}://{address}", client_context(listener, bundle), made.fleet, made.files)

    @classmethod
    def beside(
        cls, address: Address, asked: Asked, found: Beside, bundle: Bundle, changes: Sequence[str]
    ) -> Serving:
        """Return the one that runs a file that lbgen did not write."""
        tls = trusting_context(bundle) if found.entrance.tls else None
        return cls(f"{'https' if tls else 'http'}://{address}", tls, asked.fleet, (), changes)


class Ready(NamedTuple):
    """A fleet as it is tried, and its files."""

    fleet: Fleet
    files: tuple[RenderedFile, ...]


def ready(
    asked: Asked, listeners: Mapping[Address, Address], bundle: Bundle, stand_in: Callable[[Fleet], Fleet]
) -> Ready:
    """Return the fleet with addresses mapped, and what is not here stood in for."""
    doors = {name: one.door for name, one in asked.servers.items()}
    fleet = ours(asked.fleet, asked.pool, bundle)
    moved = stand_in(readdressed(fleet, asked.pool, doors, listeners, asked.agent))
    return Ready(moved, render(moved, asked.target, secrets=StandInSecrets()))


def write(ready_files: tuple[RenderedFile, ...], folder: Path) -> None:
    """Write rendered files below a folder."""
    for file in ready_files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8", errors="surrogateescape")
