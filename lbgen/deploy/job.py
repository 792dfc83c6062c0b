"""What is to be put into effect where, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.planning.plan import MAX_CHANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from lbgen.deploy.planning.changes import Render
    from lbgen.deploy.reload import Reload
    from lbgen.deploy.runtime.watched_files import Watcher
    from lbgen.render import RenderedFile


class Job(NamedTuple):
    """What is to be put where, and how."""

    target: str
    directory: Path
    files: Sequence[RenderedFile]
    check: Callable[[Path], str]
    """Runs the real checker on a main file and says how that went; raises `RefusedError` with its words."""
    reload: Reload | None
    """How it takes the new files."""
    verify: Callable[[], list[str]]
    """Raises `LbgenError` when the balancer does not run with the new files."""
    smoke: Callable[[], list[str]] = list
    """Sends a request to a server; raises `LbgenError` when it is not answered well."""
    start: Reload | None = None
    """How it is started where it does not run."""
    silent: Callable[[], bool] = lambda: False
    """Tells whether nothing listens where the fleet's listeners are."""
    strangers: Callable[[], Sequence[str]] = list
    """Names the addresses of listeners that are held by what lbgen did not set up."""
    runs_other: Callable[[AbstractSet[str]], bool] = lambda _: False
    """Tells whether the balancer is seen to name other files than these."""
    runs_again: Callable[[str], bool] = lambda _: True
    """Tells whether the balancer runs the old files again, by their text."""
    socket: str | None = None
    """HAProxy's runtime socket."""
    watcher: Watcher | None = None
    """The running balancer, where it watches its files."""
    patience_s: float = 15.0
    """How long new servers may take until they are up."""
    again: Render | None = None
    """Renders the fleet that lies there, for the plan's words."""
    expect: str | None = None
    max_change: float = MAX_CHANGE
    force: bool = False
