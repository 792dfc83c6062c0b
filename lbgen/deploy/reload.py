"""How a running balancer is told to take its new files, and how one sees that it did."""

from __future__ import annotations

import math
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.asking import asked, place_of, reason_of, url_of
from lbgen.deploy.runtime.runtime_socket import RuntimeSocket
from lbgen.model import State
from lbgen.problems import LbgenError
from lbgen.reading import read_text
from lbgen.targets.common.answers import files_named
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from pathlib import Path
    from typing import IO

    from lbgen.model import Fleet, Listener

VERIFY_S = 15.0
"""How long the new workers may take to answer."""
PROBE_S, READY_S = 2.0, 10.0
"""How long a probe may take; for `ready`, NGINX asks one server of each pool in turn."""
IN_A_ROW, PAUSE_S = 6, 0.05
"""How often the new workers have to answer, and how many seconds apart: NGINX tells the old ones to leave
100 ms after it started the new ones (``ngx_master_process_cycle``)."""
COMMAND_TIMEOUT_S, BACK_TIMEOUT_S = 120, 15
"""How long a reload command may run, and the same on the way back from one that hung or was interrupted."""


NOT_STARTED = "if the balancer is not running yet, start it with --start CMD"
SILENT_S = 3.0
"""How long a reload may take where nothing listened before: most reload nothing there."""


class HungError(LbgenError):
    """A reload that did not come to its end."""


class Reload(NamedTuple):
    """A way to reload, in words and as an act that raises `LbgenError` when it fails."""

    words: str
    act: Callable[[], None]
    again: Callable[[], None] | None = None
    """The same with less patience, for the way back; None: it cannot hang."""


def by_command(command: str, what: str = "reload") -> Reload:
    """Return a reload (or start, as `what` says) by a command line, run without a shell."""
    advice = "" if what == "reload" else "; it must start the balancer in the background"

    def act(timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        # Its output goes to a file: a daemon that it starts would hold a pipe open for ever.
        with tempfile.TemporaryFile() as output:
            try:
                code = _ended(shlex.split(command), output, timeout_s)
            except subprocess.TimeoutExpired:
                raise HungError(f"the {what} command did not end within {timeout_s:.0f} s{advice}") from None
            except (OSError, ValueError, IndexError) as error:  # IndexError: there is no word in it
                raise LbgenError(f"the {what} command failed: {error}") from None
            output.seek(0)
            said = output.read(4096).decode(errors="replace").strip() or "it said nothing"
        if code != 0:
            raise LbgenError(f"the {what} command ended with {code}: {said}")

    return Reload(f"command {command}", act, lambda: act(BACK_TIMEOUT_S))


def _ended(words: list[str], output: IO[bytes], timeout_s: float) -> int:
    """Run a command to its end and return its exit code; an exception, such as an interrupt, ends it, too."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603 - the user's own
    try:
        return process.wait(timeout_s)
    finally:
        process.kill()
        process.wait()


def by_pid_file(target: str, path: Path) -> Reload:
    """Return a reload by a signal to the target's first process."""
    number = signal.Signals[f"SIG{TARGETS[target].program.reload_signal}"]

    def act() -> None:
        try:
            os.kill(_process_in(path), number)
        except (FileNotFoundError, ProcessLookupError):
            raise LbgenError(f"{path}: no process with this ID is running: {NOT_STARTED}") from None
        except (OSError, ValueError, IndexError, OverflowError) as error:
            raise LbgenError(f"the process in {path} cannot be reloaded: {error}") from None

    return Reload(f"signal to the process in {path}", act)


def _process_in(path: Path) -> int:
    """Return the number in a PID file; raises `ValueError` for those that stand for several processes."""
    number = int(read_text(path).split()[0])
    if number <= 1:
        raise ValueError(f"{number} is not a separate process")
    return number


def by_master_socket(place: str) -> Reload:
    """Return a reload over HAProxy's master socket, which from 2.7 on tells whether it succeeded."""

    def act() -> None:
        answer = RuntimeSocket(place).ask("reload").strip()
        if "Success=0" in answer:
            raise LbgenError(f"HAProxy refused to reload: {answer}")

    return Reload(f"master socket {place}", act)


def verify(  # noqa: PLR0913, PLR0917 - who is asked for what, and how long
    fleet: Fleet,
    target: str,
    name: str,
    ready: AbstractSet[str] = frozenset(),
    deadline: float = VERIFY_S,
    waiting: Callable[[int, int], None] = lambda _passed, _whole: None,
) -> list[str]:
    """Wait until each listener's live probe names the new files; return what was seen.

    Those in `ready` have to be ready, too: they were before. `waiting` hears how many seconds have passed.
    Raises `LbgenError` for a listener that does not within `deadline` seconds.
    """
    seen = []
    end = time.monotonic() + deadline
    for listener in fleet.listeners:
        if reason := _unseen(listener, name):
            seen.append(f"listener {listener.name}: not verified, {reason}")
            continue
        _wait(listener, target, name, end, deadline, waiting)
        words = "answers with the new configuration"
        if listener.name in ready:
            _wait_ready(listener, target, end)
            words += " and is ready"
        seen.append(f"listener {listener.name}: {words}")
    return seen


def nothing_listens(fleet: Fleet) -> bool:
    """Tell whether no listener of the fleet takes connections on this machine."""
    return not any(_takes_connections(listener) for listener in fleet.listeners)


def _takes_connections(listener: Listener) -> bool:
    place = place_of(listener)
    try:
        socket.create_connection((place.host, place.port), PROBE_S).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # it cannot be told
    return True


def strangers(fleet: Fleet, target: str) -> list[str]:
    """Return the addresses of listeners where something answers that is no probe of lbgen's."""
    held = (one for one in fleet.listeners if not _unseen(one, "asked") and _takes_connections(one))
    return [url_of(one, "") for one in held if not _live(one, target)[0]]


def ready_listeners(fleet: Fleet, target: str) -> frozenset[str]:
    """Return the names of the listeners that are ready now, and that the fleet means to be ready."""
    meant = (listener for listener in fleet.listeners if _has_servers(fleet, listener))
    return frozenset(one.name for one in meant if _ready(one, target) == "is ready")


def _has_servers(fleet: Fleet, listener: Listener) -> bool:
    """Tell whether the pools behind a listener have servers in rotation, as many as its probe asks for."""
    pools = fleet.pools_of(listener)
    serve = [bool(pool.discover) or any(one.state is State.UP for one in pool.servers) for pool in pools]
    return any(serve) if listener.status.when == "any_pool" else all(serve)


def runs_other(fleet: Fleet, target: str, names: AbstractSet[str]) -> bool:
    """Tell whether a listener's live probe answers, and with the name of other files than these."""
    asked_ones = (listener for listener in fleet.listeners if not _unseen(listener, min(names, default="")))
    found = (_live(listener, target)[0] for listener in asked_ones)
    return any(other not in {"", *names} for other in found)


def runs_again(fleet: Fleet, target: str, text: str, deadline: float) -> bool:
    """Tell whether a listener answers with the files of this main file; True when none can be asked."""
    name = files_named(text)
    listeners = [listener for listener in fleet.listeners if not _unseen(listener, name)]
    end = time.monotonic() + deadline
    while listeners and not any(_live(listener, target)[0] == name for listener in listeners):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE_S)
    return True


def _unseen(listener: Listener, name: str) -> str:
    """Return why a listener cannot be asked which files it runs with; empty: it can."""
    if listener.status.live is None:
        return "it has no status.live"
    if listener.tls and listener.tls.client_ca:
        return "it requires client certificates"
    return "" if name else "the templates omit the response of the live probe"


def _wait(  # noqa: PLR0913, PLR0917 - as of `verify`
    listener: Listener,
    target: str,
    name: str,
    end: float,
    deadline: float,
    waiting: Callable[[int, int], None],
) -> None:
    """Wait for several answers of new workers in a row: at first the old ones take connections, too."""
    said, seen, whole = "is not asked", 0, math.ceil(deadline)
    while seen < IN_A_ROW and (left := end - time.monotonic()) > 0:
        found, said = _live(listener, target)
        seen = seen + 1 if found == name else 0
        if seen < IN_A_ROW:
            waiting(int(deadline - left), whole)
            time.sleep(PAUSE_S)
    waiting(whole, whole)
    if seen == IN_A_ROW:
        return
    raise LbgenError(
        f"listener {listener.name}: {url_of(listener, listener.status.live or '')} {said}, for "
        f"{deadline:.0f} s: does the balancer run with these files?"
    )


def _wait_ready(listener: Listener, target: str, end: float) -> None:
    said = _ready(listener, target)
    while said != "is ready":
        if time.monotonic() > end:
            place = url_of(listener, listener.status.ready or "")
            raise LbgenError(
                f"listener {listener.name}: was ready before, and now {place} {said}: are the new servers"
                " reachable?"
            )
        time.sleep(0.1)
        said = _ready(listener, target)


def _ready(listener: Listener, target: str) -> str:
    """Ask the ready probe and return in words what it did."""
    if listener.status.ready is None:
        return "is not asked"
    try:
        with asked(listener, target, listener.status.ready, timeout=READY_S) as response:
            response.read()
    except (OSError, HTTPException) as error:
        return f"does not answer {reason_of(error)}"
    return "is ready" if response.status == HTTPStatus.OK else f"answers {response.status}"


def _live(listener: Listener, target: str) -> tuple[str, str]:
    """Ask the live probe; return the files' name that it says, and what it did in words."""
    try:
        with asked(listener, target, listener.status.live or "", timeout=PROBE_S) as response:
            text = response.read(4096).decode(errors="replace")
    except (OSError, HTTPException) as error:
        return "", f"does not answer {reason_of(error)}"
    if response.status != HTTPStatus.OK:
        return "", f"answers {response.status}"
    name = files_named(text)
    return (
        name,
        f"still answers with the files {name}" if name else "does not answer with lbgen's probe",
    )
