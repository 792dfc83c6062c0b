"""What is packed, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.render import header
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lbgen.model import Fleet, TargetSettings
    from lbgen.render import RenderedFile
    from lbgen.targets.program import Program
    from lbgen.targets.spec import Secrets

    Settle = Callable[[RenderedFile], RenderedFile | None]


class Order(NamedTuple):
    """One target of a fleet, and how it is to be packed."""

    fleet: Fleet
    target: str
    secrets: Secrets
    form: str
    """One of `FORMS`."""
    image: str | None = None
    """None: the official image of the target's version."""
    network: str | None = None
    """A Docker network that is there already; None: one of its own."""
    templates: Path | None = None
    settle: Settle | None = None
    """Gives a file with keys the text that it has on disk, where keys are not to be had."""
    first_token_s: float = 10.0
    """Seconds within which 95 % of first tokens should come."""

    @property
    def settings(self) -> TargetSettings:
        return self.fleet.target(self.target)

    @property
    def image_name(self) -> str:
        return self.image or self.program.image(self.settings.version)

    @property
    def program(self) -> Program:
        return TARGETS[self.target].program

    @property
    def header(self) -> str:
        """The first line of a manifest, which says who wrote it."""
        return f"# {header(self.fleet, f'-t {self.target} --as {self.form}')}\n"


class Made(NamedTuple):
    """What an order came to."""

    files: tuple[RenderedFile, ...]
    """The main one first."""
    notes: tuple[str, ...]
    """What to know before it is started, one sentence each."""
