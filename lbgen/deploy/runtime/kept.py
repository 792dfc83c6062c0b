"""Servers that were taken out of HAProxy's rotation at run time, and how they stay out through a reload.

A reload forgets them: the new process knows what its file says. Setting them again over
the socket comes too late for some requests (up to 9 a reload at 200 a second, seen on 2.6 to
3.2). What HAProxy reads before it takes traffic is its server state file, so while it
reloads, the main file names one that holds these servers and nothing else (none came
through). Afterwards the main file is as before, and the other one gone.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.drain import take_out
from lbgen.deploy.runtime.running import running
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket, number
from lbgen.files import replace_file
from lbgen.problems import LbgenError
from lbgen.reading import read_text
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lbgen.deploy.runtime.running import RunningServer
    from lbgen.targets.inventory import Inventory, ServerEntry

STATE_FILE = ".lbgen-kept-servers"
NEW_PROCESS_S = 15.0
"""How long the new process may take to answer on the socket."""
_ADMIN = {"drain": 8, "maint": 1}
"""``srv_admin_state``: forced to drain, forced into maintenance."""
_NOT_CHECKED_YET, _CHECKS_ON = 1, 6
"""``srv_check_status`` INI, and ``srv_check_state`` configured and enabled.

With a status of 0 the new process never checks the server again, or ends at its first check (2.6 to 3.2).
"""
_AGENT_OFF = 18
"""``srv_agent_state``: configured, an agent, and not enabled: 'ready' from the agent would end the drain."""


class Kept(NamedTuple):
    """A server that is to stay out of rotation."""

    pool: str
    server: str
    state: str
    """``drain`` or ``maint``."""
    agent: bool
    failing: bool = False
    """Its health check failed before the reload."""

    @property
    def words(self) -> str:
        """What is said of it."""
        how = "drained" if self.state == "drain" else "in maintenance"
        return f"pool {self.pool}: {self.server}, taken out at run time, stays {how} until 'lbgen undrain'"


def kept(place: str, old: Inventory, new: Inventory) -> tuple[Kept, ...]:
    """Return which servers stay out from one file to the next; raises `LbgenError` without an answer.

    Not those that the old file took down, or the removal of which it waits for, and not those that the new
    file takes out itself.
    """
    return tuple(
        Kept(pool, name, server.held, server.agent, server.state == "down")
        for (pool, name), server in running(RuntimeSocket(place)).items()
        if server.held and _state(old, pool, name) and _state(new, pool, name) == "up"
        if server.held == "drain" or _state(old, pool, name) != "down"
    )


def _state(file: Inventory, pool: str, name: str) -> str:
    """Return what a file says of a server; empty when it does not have it."""
    servers = file.pools[pool].servers if pool in file.pools else {}
    return servers[name].state if name in servers else ""


@contextmanager
def through_reload(  # noqa: PLR0913, PLR0917 - one value each
    target: str, place: str | None, main: Path, old: Inventory, new: Inventory, say: Callable[[str], None]
) -> Iterator[None]:
    """Reload a balancer inside this: what was taken out at run time stays out, and is said.

    `main`: the file that is about to be loaded, which says `new`. It is as it was when this ends.
    """
    if place is None:
        yield
        return
    try:
        pid = RuntimeSocket(place).info().pid
        held = kept(place, old, new)
    except LbgenError as error:
        say(
            f"{target}: cannot tell which servers were drained at run time; they would be back in"
            f" rotation: {error}"
        )
        yield
        return
    if not held:
        (main.parent / STATE_FILE).unlink(missing_ok=True)  # of an apply that was killed
        yield
        return
    with _told_to_the_new_process(target, place, main, held, new):
        yield
        _see_to_it(place, held, pid, say)


@contextmanager
def _told_to_the_new_process(
    target: str, place: str, main: Path, held: tuple[Kept, ...], new: Inventory
) -> Iterator[None]:
    state = main.parent / STATE_FILE
    text = read_text(main, errors="surrogateescape")
    naming = _naming(target, text, _folder_of_haproxy(place, main) / STATE_FILE)
    try:
        state.unlink(missing_ok=True)  # a link would lead elsewhere
        replace_file(state, _state_text(held, new))
        if naming:
            replace_file(main, naming)
        yield
    finally:
        if naming:
            replace_file(main, text)
        state.unlink(missing_ok=True)


def _folder_of_haproxy(place: str, main: Path) -> PurePosixPath:
    """Return the main file's folder as HAProxy sees it, in a container for one."""
    said = RuntimeSocket(place).ask("show env HAPROXY_CFGFILES").strip()
    path = PurePosixPath(said.partition("=")[2])
    alone = path.is_absolute() and ";" not in str(path) and path.name == main.name
    return path.parent if alone else PurePosixPath(main.resolve().parent)


def _naming(target: str, text: str, state: PurePosixPath) -> str:
    """Return the main file with two more lines; empty where they do not fit in."""
    lines = text.splitlines(keepends=True)
    named = ("global\n", "defaults lbgen\n")
    if "server-state-file" in text or any(lines.count(line) != 1 for line in named):
        return ""
    added = (f"server-state-file {TARGETS[target].quote(str(state))}", "load-server-state-from-file global")
    for line, more in zip(named, added, strict=True):
        lines.insert(lines.index(line) + 1, f"    {more}\n")
    return "".join(lines)


def _state_text(held: tuple[Kept, ...], new: Inventory) -> str:
    """Return a state file in HAProxy's format 1: with the new file's weight and port, and taken out.

    All else is what a new process begins with: `-` and 0 change nothing (2.6 to 3.2), but for the checks.
    Backends and servers are found by name; the numbers need not be right.
    """
    rows = []
    for one in held:
        entry = new.pools[one.pool].servers[one.server]
        port = 0 if entry.address.startswith("unix@") else entry.address.rpartition(":")[2]
        agent = _AGENT_OFF if one.agent else 0
        checked = "check" in entry.rest
        running = 0 if one.failing and checked else 2
        rows.append(
            f"1 {one.pool} 1 {one.server} - {running} {_ADMIN[one.state]} {entry.weight} {entry.weight} 0 "
            f"{_NOT_CHECKED_YET} 0 {_health(entry) if running else 0} {_CHECKS_ON if checked else 0} {agent} "
            f"0 0 - {port} -"
        )
    return "\n".join(["1", *rows, ""])


def _health(entry: ServerEntry) -> int:
    """Return HAProxy's count for a server that is up and failed no check lately (its defaults: 2 and 3)."""
    said = dict(pairwise(entry.rest))
    return (number(said.get("rise")) or 2) + (number(said.get("fall")) or 3) - 1


def _see_to_it(place: str, held: tuple[Kept, ...], old_pid: str, say: Callable[[str], None]) -> None:
    """Look whether the new process has them out, and set over the socket what is not."""
    socket = RuntimeSocket(place)
    servers = _of_another(socket, old_pid)
    for one in held:
        server = servers.get((one.pool, one.server))
        if server is None:
            raise LbgenError(f"{place}: {one.pool}/{one.server} does not run after the reload")
        if server.held == one.state:
            say(f"haproxy: {one.words}")
            continue
        take_out(socket, server, one.state)
        say(f"haproxy: {one.words}; it was in rotation for a moment after the reload")


def _of_another(socket: RuntimeSocket, pid: str) -> Mapping[tuple[str, str], RunningServer]:
    """Return the servers of another process than this one, as soon as it tells them."""
    end = time.monotonic() + NEW_PROCESS_S
    while time.monotonic() < end:
        try:
            if socket.info().pid != pid:
                return running(socket)
        except LbgenError:
            pass  # between the old process and the new one
        time.sleep(0.05)
    raise LbgenError(f"{socket.place}: no new process after {NEW_PROCESS_S:.0f} s")


def as_json(held: tuple[Kept, ...]) -> list[Mapping[str, str]]:
    """Return them for programs."""
    return [{"pool": one.pool, "server": one.server, "state": one.state} for one in held]
