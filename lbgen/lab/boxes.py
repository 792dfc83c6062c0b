"""What runs in a rig: a mock GPU server or a balancer in its container, and what can be done to it."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.lab.archive import pack
from lbgen.lab.problems import RigError
from lbgen.targets.common.answers import files_named
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from docker.models.containers import Container

    from lbgen.render import RenderedFile

START_PATIENCE_S = 30.0
STOPPED = "/tmp/stopped"  # noqa: S108 - in a container of our own
PROCESS = "/tmp/process"  # noqa: S108 - likewise
SUPERVISOR = f"""while :; do
    while [ -e {STOPPED} ]; do sleep 0.05; done
    "$@" & echo $! >{PROCESS}; wait $!
    [ $? = 127 ] && exit 127
done"""
"""Runs a mock in its container and keeps the container alive without it: a container that ends takes its
address along, and then nobody is there to refuse a connection. An image without Python (127) is of no use."""


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


def fetch(
    url: str, method: str = "GET", body: bytes | None = None, timeout_s: float = 10.0, **headers: str
) -> Answer:
    """Send one request; every status is an answer. Raises `OSError` when none comes."""
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - our own http address
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            return Answer(answer.status, _lower(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers.items()), error.read())


class Box:
    """A container of a rig."""

    def __init__(self, container: Container, address: str, port: int) -> None:
        self.container = container
        self.address = address
        self.port = port
        self.url = f"http://{address}:{port}"

    def wait_ready(self, path: str) -> None:
        """Return once a page answers 200; raises `RigError` with the program's own words."""
        end = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < end:
            if self.answers(path):
                return
            self.container.reload()
            if self.container.status in {"exited", "dead"}:
                break
            time.sleep(0.05)
        image = self.container.attrs["Config"]["Image"]
        raise RigError(f"a container of {image} did not get ready; it says:\n{self.logs().strip()[-3000:]}")

    def wait_open(self) -> None:
        """Return once somebody listens; raises `RigError` with the program's own words."""
        end = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < end:
            try:
                with socket.create_connection((self.address, self.port), 2):
                    return
            except OSError:
                self.container.reload()
            if self.container.status in {"exited", "dead"}:
                break
            time.sleep(0.05)
        raise RigError(f"it does not run; it says:\n{self.logs().strip()[-3000:]}")

    def answers(self, path: str) -> bool:
        """Tell whether a page answers 200."""
        try:
            return fetch(self.url + path, timeout_s=2).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def logs(self) -> str:
        """Return all that the program wrote."""
        return _text(self.container.logs())

    def freeze(self) -> None:
        """Stop the program where it stands: connections open, nothing answers."""
        self.container.pause()

    def thaw(self) -> None:
        """Let a frozen program go on."""
        self.container.unpause()

    def run(self, *command: str) -> str:
        """Run a command in the container; return its output. Raises `RigError` when it fails."""
        code, output = self.container.exec_run(list(command))
        text = _text(output)
        if code:
            raise RigError(f"{' '.join(command)}: exit {code}: {text}")
        return text

    def remove(self) -> None:
        """Remove the container, running or not."""
        from docker.errors import APIError  # noqa: PLC0415 - an extra, which processes do without

        try:
            self.container.remove(force=True, v=True)
        except APIError:
            return  # gone already


class MockBox(Box):
    """A mock GPU server with its control API."""

    @property
    def name(self) -> str:
        """What it calls itself in its answers."""
        return str(self.state()["name"])

    def crash(self) -> None:
        """Kill the server; its machine stays, so that connections are refused from now on."""
        # A killed process accepts connections until it is gone: those would be reset, not refused.
        gone = "while kill -0 $pid 2>/dev/null; do sleep 0.01; done"
        self.run("sh", "-c", f"touch {STOPPED}; pid=$(cat {PROCESS}); kill -9 $pid; {gone}")

    def start(self) -> None:
        """Start it again after a crash; return when ready."""
        self.run("rm", "-f", STOPPED)
        self.wait_ready("/health")

    def ensure_running(self) -> None:
        """Start or thaw it where somebody left it stopped."""
        if self.answers("/health"):
            return
        self.container.reload()
        if self.container.status == "paused":
            self.thaw()
        self.start()

    def state(self) -> Any:  # noqa: ANN401 - JSON
        """Return its counters."""
        return self._control("GET", "state")

    def requests(self) -> Any:  # noqa: ANN401 - JSON
        """Return the generations that it saw, oldest first."""
        return self._control("GET", "requests")

    def in_flight(self) -> list[tuple[float, int]]:
        """Return every change of the number of requests in flight, with its time."""
        return [(when, count) for when, count in self._control("GET", "in_flight")]

    def reset(self) -> None:
        """Forget requests and faults."""
        self._control("POST", "reset", {})

    def fault(self, kind: str, **fields: object) -> None:
        """Order a fault, see `lbgen.lab.mock.faults.Fault`."""
        self._control("POST", "faults", {"kind": kind, **fields})

    def heal(self) -> None:
        """Withdraw all faults."""
        self._control("DELETE", "faults")

    def configure(self, **fields: object) -> None:
        """Change settings, see `lbgen.lab.mock.mock_server.Settings`; the engine begins anew."""
        self._control("POST", "configure", fields)

    def _control(self, method: str, command: str, fields: object = None) -> Any:  # noqa: ANN401 - JSON
        body = None if fields is None else json.dumps(fields).encode()
        answer = fetch(f"{self.url}/mock/{command}", method, body, timeout_s=30)
        if answer.status != 200:
            raise RigError(f"the mock refuses {method} {command}: {answer.body.decode()}")
        return json.loads(answer.body)


_RENEW = 'for one; do cp -p "$one" "$one.new" && mv "$one.new" "$one" || exit 1; done'


class Balancer(Box):
    """NGINX, HAProxy or Envoy with rendered files."""

    def __init__(self, container: Container, address: str, port: int, target: str) -> None:
        super().__init__(container, address, port)
        self.target = target

    def put(self, files: Iterable[RenderedFile]) -> None:
        """Write files into the target's folder."""
        self.container.put_archive("/", pack(placed(self.target, files)))

    def reload(self, files: Iterable[RenderedFile] | None = None) -> None:
        """Make the program read its files again; with new ones, return when it serves by them.

        HAProxy's master (seen on 2.6 and 3.0) loses a signal that comes while it handles the one before, so
        that reloads have to be waited for. Raises `RigError`.
        """
        name = None
        if files is not None:
            files = tuple(files)
            self.put(files)
            name = files_named(files[0].text)
        if files is not None and TARGETS[self.target].abilities.watches:
            # It sees a file that takes another one's place, and no archive does that.
            self.run("sh", "-c", _RENEW, "sh", *placed(self.target, files))
        else:
            self.container.kill(TARGETS[self.target].program.reload_signal)
        if name is not None:
            self._wait_for(name)

    def _wait_for(self, name: str) -> None:
        """Return once the live probe names this configuration several times: workers change one by one."""
        end = time.monotonic() + START_PATIENCE_S
        seen = 0
        while seen < 5:
            if time.monotonic() > end:
                raise RigError(
                    f"{self.target} does not take the configuration {name}:\n{self.logs()[-3000:]}"
                )
            seen = seen + 1 if name.encode() in fetch(f"{self.url}/lb/live").body else 0
            time.sleep(0.02)

    def processes(self) -> list[int]:
        """Return the process ids (as the host counts) of the balancer's processes."""
        top = self.container.top(ps_args="-eo pid,args")
        return [int(row[0]) for row in top["Processes"]]

    def descriptors(self) -> int:
        """Return how many descriptors all processes of the balancer hold."""
        return int(self.run("sh", "-c", "ls /proc/[0-9]*/fd 2>/dev/null | grep -c '^[0-9]'"))

    def memory_kib(self) -> int:
        """Return the anonymous memory of all processes in KiB.

        Not the proportional share: that of NGINX's workers, which run as another user, is not to be read.
        """
        script = "cat /proc/[0-9]*/status 2>/dev/null | awk '/^RssAnon:/ {sum += $2} END {print sum + 0}'"
        return int(self.run("sh", "-c", script))


def placed(target: str, files: Iterable[RenderedFile]) -> dict[str, str | bytes]:
    """Return rendered files by their places in a balancer's container."""
    return {f"{TARGETS[target].directory}/{file.path}": file.text for file in files}


def _text(output: bytes | Iterable[bytes]) -> str:
    return (output if isinstance(output, bytes) else b"".join(output)).decode(errors="replace")


def _lower(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}
