"""Pools whose servers are all replaced: the new ones serve before the old ones go.

A program that watches its files sends nothing to a server before its first check has passed, and forgets
a server with its line. So the pool's file names both for a moment. Who is killed meanwhile leaves this
file, which is whole, and an apply that is unfinished.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from lbgen.files import replace_file
from lbgen.problems import LbgenError
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lbgen.deploy.runtime.watched_files import Watcher
    from lbgen.files import Change

POLL_S = 0.05


class Replaced(NamedTuple):
    """A pool of which no server that serves stays."""

    pool: str
    file: Change
    new: frozenset[str]
    """Addresses of its new servers that are to serve."""


def overlap(watcher: Watcher, files: Sequence[Change], patience_s: float, say: Callable[[str], None]) -> None:
    """Add the new servers of such pools to the old ones, and wait for their checks.

    Raises `LbgenError` when not one of a pool's new servers passes in time: its old ones are not to go.
    """
    replaced = list(
        _replaced(watcher, {file.path.resolve(): file for file in files if file.kind == "changed"}, say)
    )
    for one in replaced:
        replace_file(one.file.path, watcher.files.joined(one.file.old, one.file.new))
        say(f"{watcher.target}: pool {one.pool}: new servers added before the old ones go")
    end = time.monotonic() + patience_s
    for one in replaced:
        if not _up_by(end, watcher, one):
            raise LbgenError(
                f"pool {one.pool}: none of its new servers passed a health check in {patience_s:g} s"
            )


def _replaced(
    watcher: Watcher, changed: Mapping[Path, Change], say: Callable[[str], None]
) -> Iterator[Replaced]:
    pools = [file for path, file in changed.items() if path.name == watcher.files.pools_file]
    files = ((pool, path.resolve()) for pool, path in watcher.server_files())
    found = [(pool, changed[path]) for pool, path in files if path in changed]
    try:
        up = watcher.up() if found else frozenset()
    except LbgenError:
        return  # it does not run, or cannot be asked
    for pool, file in found:
        before, after = (_serving(watcher.target, text, pool) for text in (file.old, file.new))
        serve = {address for address in before if (pool, address) in up}
        if not serve or not after or serve & after:
            continue
        if any(watcher.files.reached(one.old, pool) != watcher.files.reached(one.new, pool) for one in pools):
            # The old cluster would check the new servers, and send them requests, in the old way.
            say(
                f"{watcher.target}: pool {pool}: all servers are replaced at once, as their checks change too"
            )
            continue
        yield Replaced(pool, file, after)


def _serving(target: str, text: str, pool: str) -> frozenset[str]:
    pools = TARGETS[target].read(text).pools
    servers = pools[pool].servers.values() if pool in pools else ()
    return frozenset(one.address for one in servers if one.state == "up")


def _up_by(end: float, watcher: Watcher, one: Replaced) -> bool:
    """Wait until all new servers are up; when the time is over, return whether any is."""
    while True:
        up = {address for pool, address in watcher.up() if pool == one.pool} & one.new
        if up == one.new or time.monotonic() > end:
            return bool(up)
        time.sleep(POLL_S)
