"""NGINX, HAProxy and a plain oracle agree on what becomes of a request: random fleets, random requests.

The programs of this machine run with what is rendered, in front of a server for each pool.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from integration.waiting import eventually
from lbgen.checker.programs import Choice, version_here
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import RealSecrets
from tests.ports import free_port
from tests.properties.examples import examples
from tests.properties.oracle import Ask, Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUESTS = 40
TARGETS = ("nginx", "haproxy")
POOLS = ("a", "b", "c")
KEYS = {"sk-one": "one", "sk-two": "two", "sk-three": "three"}
SECRETS = {name.upper(): key for key, name in KEYS.items()}
HOSTS = ("a.org", "b.org", "x.b.org", "y.x.b.org", "B.ORG", "other.net")
NAMES = ("a.org", "b.org", "*.b.org", "*.x.b.org")
PREFIXES = ("/v1", "/v1/chat", "/v1/chat/completions", "/gpt", "/v")
PATHS = (
    "/", "/v1", "/v1/", "/v1/chat", "/v1/chat/x", "/v1/chatx", "/v1/chat/completions", "/gpt/v1", "/v", "/zz",
)  # fmt: skip
AUTHS: tuple[Any, ...] = (
    "none", {"clients": "all"}, {"clients": ["one"]}, {"clients": ["two", "three"]},
)  # fmt: skip
TIERS = ("gold", "Gold", "silver")


@st.composite
def routes(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if draw(st.booleans()):
        made[draw(st.sampled_from(["path", "path_exact"]))] = draw(
            st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=2, unique=True)
        )
    if draw(st.integers(0, 3)) == 0:
        made["host"] = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
    if draw(st.integers(0, 3)) == 0:
        made["method"] = draw(st.lists(st.sampled_from(["GET", "POST"]), min_size=1, max_size=1))
    if draw(st.integers(0, 3)) == 0:
        made["header"] = {"X-Tier": draw(st.sampled_from(TIERS))}
    if draw(st.integers(0, 4)) == 0:
        return {**made, "respond": {"status": draw(st.sampled_from([200, 404, 410])), "body": "fixed"}}
    if "path" in made and draw(st.booleans()):
        made["strip_prefix"] = True
    if draw(st.integers(0, 3)) == 0:
        made["add_prefix"] = draw(st.sampled_from(["/api", "/api/v2"]))
    return {**made, "pool": draw(st.sampled_from(POOLS))}


@st.composite
def drafts(draw: st.DrawFn) -> dict[str, Any]:
    """Make listeners and clients; ports are 0 and 1, for two that are free."""
    listeners = {}
    for name in ("l", "m", "n")[: draw(st.integers(1, 3))]:
        auth = draw(st.sampled_from(AUTHS))
        listener = {"bind": draw(st.integers(0, 1)), "auth": auth,
                    "routes": draw(st.lists(routes(), min_size=1, max_size=4))}  # fmt: skip
        hosts = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
        listeners[name] = {**listener, **({"hosts": hosts} if hosts else {})}
    pools = draw(st.sampled_from([None, ["a"], ["a", "b"]]))
    clients: dict[str, Any] = {name: {"key": f"env:{name.upper()}"} for name in KEYS.values()}
    if pools:
        clients["two"]["pools"] = pools
    return {"listeners": listeners, "clients": clients}


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    headers = {"X-Tier": draw(st.sampled_from(TIERS))} if draw(st.booleans()) else {}
    key = draw(st.sampled_from([*KEYS, "sk-nobody", ""]))
    if key:
        headers |= draw(st.sampled_from([{"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}]))
    method, host = draw(st.sampled_from(["GET", "POST"])), draw(st.sampled_from(HOSTS))
    return Ask(draw(st.integers(0, 1)), host, method, draw(st.sampled_from(PATHS)), headers)


class Server(BaseHTTPRequestHandler):
    """Tells its pool and the path that it sees."""

    protocol_version = "HTTP/1.1"
    pool = ""

    def do_GET(self) -> None:
        body = json.dumps({"pool": self.pool, "path": self.path}).encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("X-Pool", self.pool)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the server looks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, int]]:
    """The port of a server for each pool."""
    with ExitStack() as stack:
        found = {}
        for pool in POOLS:
            handler = type(f"Server{pool}", (Server,), {"pool": pool})
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            found[pool] = server.server_address[1]
        yield found


def placed(draft: dict[str, Any], servers: dict[str, int], ports: tuple[int, int]) -> dict[str, Any]:
    """Return the fleet of a draft at ports of this machine."""
    listeners = {
        name: {**one, "bind": f"127.0.0.1:{ports[one['bind']]}"} for name, one in draft["listeners"].items()
    }
    pools = {
        pool: {"engine": "http", "servers": [f"127.0.0.1:{port}"], "health": False}
        for pool, port in servers.items()
    }
    return {**draft, "listeners": listeners, "pools": pools}


def problems(fleet: dict[str, Any], target: str, version: str) -> list[str]:
    source, versions = Source("f.yaml", json.dumps(fleet)), {target: version}
    loaded = load([source], environ={}, targets=(target,), versions=versions)
    return [str(problem) for problem in loaded.problems if problem.is_error]


@contextmanager
def running(target: str, version: str, fleet: dict[str, Any], folder: Path, port: int) -> Iterator[None]:
    """Run the program with what a fleet renders to."""
    folder.mkdir()
    fleet = {**fleet, "targets": {target: {"version": version, "directory": str(folder)}}}
    loaded = load([Source("f.yaml", json.dumps(fleet))], environ={}, targets=(target,))
    assert loaded.fleet is not None, loaded.problems
    for file in render(loaded.fleet, target, secrets=RealSecrets(SECRETS)):
        (folder / file.path).parent.mkdir(exist_ok=True, parents=True)
        (folder / file.path).write_text(file.text)
    command = {
        "nginx": ["nginx", "-p", folder, "-c", folder / "nginx.conf", "-g", f"daemon off; pid {folder}/pid;"],
        "haproxy": ["haproxy", "-db", "-f", folder / "haproxy.cfg"],
    }[target]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
    ):
        try:
            eventually(lambda: process.poll() is None and live(port), 20, f"{target} answers")
            yield
        finally:
            process.terminate()
            process.wait(20)


def live(port: int) -> bool:
    try:
        got(port, Ask(0, "a.org", "GET", "/lb/live", {}))
    except OSError:
        return False
    return True


def got(port: int, ask: Ask) -> Outcome:
    """Send a request, and return what came of it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        body = "{}" if ask.method == "POST" else None
        connection.request(ask.method, ask.path, body, {"Host": ask.host, **ask.headers})
        answer = connection.getresponse()
        text = answer.read()
        if answer.getheader("X-Pool") is None:
            return Outcome(answer.status)
        seen = json.loads(text)
        return Outcome(answer.status, seen["pool"], seen["path"])
    finally:
        connection.close()


@given(draft=drafts(), sent=st.lists(asks(), min_size=REQUESTS, max_size=REQUESTS))
@examples(12, 100)
def test_both_programs_do_what_the_oracle_says(
    servers: dict[str, int], draft: dict[str, Any], sent: list[Ask]
) -> None:
    versions = {target: version_here(target, Choice()) for target in TARGETS}
    if lacking := [target for target in TARGETS if versions[target] is None]:
        pytest.skip(f"{', '.join(lacking)}: not installed here")
    with TemporaryDirectory(prefix="lbgen-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        ports = {target: (free_port(), free_port()) for target in TARGETS}
        fleets = {target: placed(draft, servers, ports[target]) for target in TARGETS}
        if any(problems(fleets[target], target, str(versions[target])) for target in TARGETS):
            return  # a draft may contradict itself
        folder = Path(name)
        folder.chmod(0o755)
        for target in TARGETS:
            port = ports[target][next(iter(draft["listeners"].values()))["bind"]]
            stack.enter_context(running(target, str(versions[target]), fleets[target], folder / target, port))
        used = sorted({one["bind"] for one in draft["listeners"].values()})
        for ask in sent:
            placed_ask = ask._replace(port=used[ask.port % len(used)])
            found = {target: got(ports[target][placed_ask.port], ask) for target in TARGETS}
            said = {
                target: outcome(fleets[target], KEYS, ask._replace(port=ports[target][placed_ask.port]))
                for target in TARGETS
            }
            note(json.dumps(draft))
            assert found == said, (placed_ask, found, said["nginx"])
