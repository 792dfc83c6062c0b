"""How a running balancer is told to take its new files, and how one sees that it did."""

from __future__ import annotations

import json
import os
import shlex
import signal
import ssl
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from lbgen.deploy.runtime_socket import RuntimeSocket
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lbgen.model import Fleet, Listener

VERIFY_S = 15.0
"""How long the new workers may take to answer."""
COMMAND_TIMEOUT_S = 120


class Reload(NamedTuple):
    """A way to reload, in words and as an act that raises `LbgenError` when it fails."""

    words: str
    act: Callable[[], None]


def by_command(command: str) -> Reload:
    """Return a reload by a command line, run without a shell."""

    def act() -> None:
        # Its output goes to a file: a daemon that it starts would hold a pipe open for ever.
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(  # noqa: S603 - the user's own command
                    shlex.split(command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=COMMAND_TIMEOUT_S,
                    check=False,
                )
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                raise LbgenError(f"the reload command failed: {error}") from None
            output.seek(0)
            said = output.read(4096).decode(errors="replace").strip() or "it said nothing"
        if done.returncode != 0:
            raise LbgenError(f"the reload command ended with {done.returncode}: {said}")

    return Reload(f"command {command}", act)


def by_pid_file(target: str, path: Path) -> Reload:
    """Return a reload by signal: HUP to NGINX's master, USR2 to HAProxy's (-W or -Ws)."""
    number = signal.SIGHUP if target == "nginx" else signal.SIGUSR2

    def act() -> None:
        try:
            os.kill(int(path.read_text().split()[0]), number)
        except (OSError, ValueError, IndexError) as error:
            raise LbgenError(f"the process in {path} cannot be reloaded: {error}") from None

    return Reload(f"signal to the process in {path}", act)


def by_master_socket(place: str) -> Reload:
    """Return a reload over HAProxy's master socket, which from 2.7 on tells whether it succeeded."""

    def act() -> None:
        answer = RuntimeSocket(place).ask("reload").strip()
        if "Success=0" in answer:
            raise LbgenError(f"HAProxy refused to reload: {answer}")

    return Reload(f"master socket {place}", act)


def verify(fleet: Fleet, deadline: float = VERIFY_S) -> list[str]:
    """Wait until each listener's live probe answers with the fleet's digest; return what was seen.

    Raises `LbgenError` for a listener that does not within `deadline` seconds.
    """
    seen = []
    end = time.monotonic() + deadline
    for listener in fleet.listeners:
        if listener.status.live is None:
            seen.append(f"listener {listener.name}: not verified, it has no status.live")
            continue
        _wait(listener, fleet.digest, end)
        seen.append(f"listener {listener.name}: answers with the new configuration")
    return seen


def _wait(listener: Listener, digest: str, end: float) -> None:
    said = "is not asked"
    while time.monotonic() < end:
        found, said = _live(listener)
        if found == digest:
            return
        time.sleep(0.1)
    raise LbgenError(
        f"listener {listener.name}: {_probe_url(listener)} {said}, for {VERIFY_S:.0f} s after the reload: "
        "does the balancer run with these files?"
    )


def _probe_url(listener: Listener) -> str:
    bind = listener.binds[0]
    host = "127.0.0.1" if bind.host in {"*", "0.0.0.0", "::"} else bind.host  # noqa: S104 - compared, not bound
    return f"{'https' if listener.tls else 'http'}://{bind._replace(host=host)}{listener.status.live}"


def _live(listener: Listener) -> tuple[str, str]:
    """Ask the live probe on a connection of its own; return the digest that it names, and what it did."""
    request = Request(_probe_url(listener))  # noqa: S310 - http(s)
    request.add_header("Host", listener.hosts[0] if listener.hosts else "localhost")
    request.add_header("Connection", "close")
    context = ssl._create_unverified_context() if listener.tls else None  # noqa: S323, SLF001 - our own listener
    try:
        with urlopen(request, timeout=2, context=context) as response:  # noqa: S310 - http(s)
            digest = str(json.loads(response.read(4096)).get("digest", ""))
    except HTTPError as error:
        return "", f"answers {error.code}"
    except URLError as error:
        return "", f"does not answer ({error.reason})"
    except OSError as error:
        return "", f"does not answer ({error})"
    except (ValueError, AttributeError):
        return "", "answers something else than lbgen's live probe"
    return digest, f"still answers with configuration {digest}"
