"""Servers of a balancer that watches its files: taken out in their pool's file, seen on its own pages.

What is taken out stands in the file, and every apply puts it into the new one, until it is put back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.drain import Seen
from lbgen.deploy.lock import locked
from lbgen.deploy.runtime.kept import Kept
from lbgen.files import has_header, replace_file
from lbgen.problems import LbgenError
from lbgen.reading import read_text
from lbgen.targets.registry import TARGETS
from lbgen.targets.watching import watched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.model import Fleet
    from lbgen.render import RenderedFile
    from lbgen.targets.inventory import Inventory, ServerEntry
    from lbgen.targets.watching import Process, RunningHost, Watched
    from lbgen.units import Address

TIMEOUT_S = 10.0
TAKEN_S = 15.0
"""How long the program may take to read a file that was replaced."""
MOST_BYTES = 64 * 2**20
"""Of a page: 2 kB a server, so 60 MB for 30,000 of them."""


class Watcher(NamedTuple):
    """One running balancer of this machine, its files and its page."""

    target: str
    directory: Path
    door: Address
    fleet: Fleet

    @property
    def place(self) -> str:
        return str(self.door)

    @property
    def title(self) -> str:
        return TARGETS[self.target].title

    @property
    def files(self) -> Watched:
        found = watched(self.target)
        if found is None:
            raise ValueError(f"{self.target} watches no files")
        return found

    def process(self) -> Process:
        """Ask it what it runs; raises `LbgenError`."""
        try:
            return self.files.process(tuple(map(self._page, self.files.pages)))
        except (OSError, HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise LbgenError(f"{self.place}: no answer from {self.title}: {said}") from None
        except ValueError:
            raise LbgenError(f"{self.place}: not {self.title}'s admin port") from None

    def _page(self, path: str) -> str:
        connection = HTTPConnection(self.door.host.strip("[]"), self.door.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            answer = connection.getresponse()
            data = answer.read(MOST_BYTES + 1)
        finally:
            connection.close()
        if answer.status != 200 or len(data) > MOST_BYTES:
            raise ValueError(f"{path} answers {answer.status}")
        return data.decode("utf-8", "replace")

    def up(self) -> frozenset[tuple[str, str]]:
        """Return the pools and addresses of the servers that get requests; raises `LbgenError`."""
        return frozenset((one.pool, one.address) for one in self.process().hosts if one.state == "up")

    def entry(self, pool: str, name: str) -> ServerEntry:
        """Return what the pool's file says of a server; raises `LbgenError` where it has none."""
        file = TARGETS[self.target].read(self._text(self._file(pool)))
        servers = file.pools[pool].servers if pool in file.pools else {}
        if name not in servers:
            raise LbgenError(f"{self._file(pool)}: has no server {name}: apply the fleet first")
        return servers[name]

    def host(self, pool: str, name: str) -> tuple[Process, RunningHost]:
        """Return a server as it runs; raises `LbgenError`."""
        address, process = self.entry(pool, name).address, self.process()
        for one in process.hosts:
            if (one.pool, one.address) == (pool, address):
                return process, one
        raise LbgenError(f"{self.place}: {self.title} has no server {pool}/{name} at {address}")

    def hold(self, pool: str, name: str, *, out: bool) -> None:
        """Write the file with this server taken out or back, and see it taken; raises `LbgenError`."""
        if not self.directory.is_dir():
            raise LbgenError(
                f"{self.directory}: not a folder with {self.title}'s files: apply the fleet first"
            )
        with locked(self.directory, lambda _: None):
            path = self._file(pool)
            text, entry = self._text(path), self.entry(pool, name)
            names = self.files.holds(text)
            try:
                new = self.files.hold(text, names | {name} if out else names - {name})
            except ValueError as error:
                raise LbgenError(f"{path}: {error}") from None
            if new != text:
                replace_file(path, new)
        self._see_taken(pool, name, out=out or (entry.state == "drain" and name not in names))

    def _see_taken(self, pool: str, name: str, *, out: bool) -> None:
        end = time.monotonic() + TAKEN_S
        while (self.host(pool, name)[1].state == "drain") is not out:
            if time.monotonic() > end:
                raise LbgenError(
                    f"{self.place}: {self.title} did not load {self._file(pool)} within {TAKEN_S:.0f} s"
                )
            time.sleep(0.05)

    def taken_out(self, pool: str, name: str, *, bound: bool) -> Seen:
        """Take the server out in its file, `bound` or not: who is bound to it goes elsewhere, too."""
        del bound
        process, server = self.host(pool, name)
        others = (one for one in process.hosts if one.pool == pool and one.address != server.address)
        last = not any(one.state == "up" for one in others)
        self.hold(pool, name, out=True)
        return Seen(self.place, server.in_flight, last=last)

    def look(self, last: Seen, pool: str, name: str) -> Seen:
        """Count what is in flight there."""
        if self.entry(pool, name).state != "drain":
            raise LbgenError(
                f"{self.place}: {pool}/{name} was put back into rotation by another program or person"
            )
        return last._replace(in_flight=self.host(pool, name)[1].in_flight)

    def put_back(self, pool: str, name: str) -> tuple[str, str]:
        """Take the server back; return its state then, in capitals, and its last check."""
        self.hold(pool, name, out=False)
        server = self.host(pool, name)[1]
        return server.state.upper(), server.check

    def _file(self, pool: str) -> Path:
        try:
            return self.directory / self.files.servers_file(self.fleet, pool)
        except ValueError as error:
            raise LbgenError(f"{self.title}: {error}") from None

    def server_files(self) -> Iterator[tuple[str, Path]]:
        """Yield the pools whose servers stand in a file of their own, and that file."""
        for pool in self.fleet.pools:
            with suppress(ValueError):
                yield pool.name, self.directory / self.files.servers_file(self.fleet, pool.name)

    def _text(self, path: Path) -> str:
        try:
            text = read_text(path, errors="surrogateescape")
        except OSError as error:
            raise LbgenError(f"{path}: cannot be read: {error.strerror}: apply the fleet first") from None
        if not has_header(text):
            raise LbgenError(f"{path}: not written by lbgen, not changed")
        return text


def watchers(fleet: Fleet) -> tuple[Watcher, ...]:
    """Return the balancers of this machine that watch their files."""
    return tuple(
        Watcher(one.name, Path(one.directory), door.address, fleet)
        for one in fleet.targets
        if watched(one.name)
        for door in TARGETS[one.name].doors(one)[:1]
    )


def files_with_held(
    target: str, directory: Path, files: Sequence[RenderedFile]
) -> tuple[tuple[RenderedFile, ...], tuple[Kept, ...]]:
    """Return the files with those servers out that were taken out in the old ones, and who they are.

    Not those that the new file takes out itself, nor those that it does not have.
    """
    how = watched(target)
    if how is None:
        return tuple(files), ()
    found, kept = [], list[Kept]()
    for file in files:
        held = how.holds(_there(directory / file.path))
        inventory = TARGETS[target].read(file.text) if held else None
        for pool, names in _up(inventory, held) if inventory else ():
            file = file._replace(text=how.hold(file.text, names))  # noqa: PLW2901 - one pool a file
            kept += [Kept(pool, name, "drain", agent=False) for name in names]
        found.append(file)
    return tuple(found), tuple(kept)


def _up(file: Inventory, held: frozenset[str]) -> Iterator[tuple[str, list[str]]]:
    for pool, entry in file.pools.items():
        names = sorted(name for name in held & entry.servers.keys() if entry.servers[name].state == "up")
        if names:
            yield pool, names


def _there(path: Path) -> str:
    try:
        return read_text(path, errors="surrogateescape")
    except OSError:
        return ""
