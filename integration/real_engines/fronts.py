"""A balancer of this machine before two engines: a listener for each strategy, all for the same servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from integration import envoy_site
from integration.real_engines.engines import SLOTS, get
from integration.real_engines.tap import Tap
from integration.waiting import eventually
from lbgen.checker.programs import Choice, version_here
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.vocabulary import Version
from tests.ports import free_port
from tests.targets.site import command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from integration.real_engines.engines import Engine

ROOT = Path(__file__).parents[2]
STRATEGIES: Mapping[str, object] = {
    "least_conn": "least_conn",
    "round_robin": "round_robin",
    "prefix": {"name": "prefix", "key": "system_prompt"},
    "agents": "prefix",
    "kv_cache": "kv_cache",
}
"""By the name of the pool; the first is for all that is not about a strategy."""
TAPPED = "tapped"
PATIENCE_S = 60.0


class Front(NamedTuple):
    """A running balancer."""

    target: str
    version: str
    ports: Mapping[str, int]
    refused: Mapping[str, str]
    """Strategies that this target does not have, with the reason that lbgen gives."""
    folder: Path
    process: subprocess.Popen[bytes]
    tap: Tap
    """Before the first engine, for requests to the port `TAPPED`."""

    @property
    def port(self) -> int:
        """Where least_conn chooses."""
        return self.ports["least_conn"]

    @property
    def files(self) -> Path:
        """Where the rendered files are."""
        return self.folder / self.target

    def write(self, **server: object) -> None:
        """Write the fleet file with keys for the first server."""
        file = self.folder / "fleet.yaml"
        fleet = json.loads(file.read_text())
        for name in self.ports.keys() - {TAPPED}:
            pool = fleet["pools"][name]
            pool["servers"][0] = {**pool["servers"][0], **server}
        file.write_text(json.dumps(fleet))

    def lbgen(self, *words: str) -> str:
        """Call `lbgen` with the fleet and return what it says; raises `AssertionError`."""
        name, *others = words
        called = subprocess.run(
            [sys.executable, "-m", "lbgen", name, str(self.folder / "fleet.yaml"), "-t", self.target,
             *others],
            cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert called.returncode == 0, called.stderr.strip()[-250:]
        return called.stdout + called.stderr


def target_version(target: str) -> str | None:
    """Return the version of a target's program on this machine; None where there is none."""
    if target == "envoy":
        return str(envoy_site.version())
    found = version_here(target, Choice())
    return None if found is None else str(found)


@contextmanager
def front(target: str, engines: Sequence[Engine], folder: Path) -> Iterator[Front]:
    """Run a target's program of this machine before engines."""
    version = target_version(target)
    assert version is not None, f"{target} is not installed here"
    refused = {name: why for name in STRATEGIES if (why := _refusal(target, version, name))}
    offered = [name for name in STRATEGIES if name not in refused]
    ports = {name: free_port() for name in (*offered, TAPPED)}
    place = folder / target
    with Tap(engines[0]) as tap, (folder / f"{target}.log").open("w") as log:
        fleet = _fleet(engines, ports, tap) | {"targets": {target: _settings(target, version, place, folder)}}
        (folder / "fleet.yaml").write_text(json.dumps(fleet))
        made = Front(target, version, ports, refused, folder, None, tap)  # type: ignore[arg-type]  # not yet
        made.lbgen("render", "-o", str(folder))
        process = subprocess.Popen(command(target, place), stdout=log, stderr=log, cwd=place)
        try:
            eventually(
                lambda: process.poll() is not None or _live(made.port), PATIENCE_S, f"{target} answers"
            )
            assert process.poll() is None, (folder / f"{target}.log").read_text()[-2000:]
            yield made._replace(process=process)
        finally:
            process.terminate()
            process.wait(30)


def _live(port: int) -> bool:
    try:
        return get(port, "/lb/live").status == 200
    except OSError:
        return False


def _settings(target: str, version: str, place: Path, folder: Path) -> dict[str, str]:
    settings = {"version": str(Version.parse(version)), "directory": str(place)}
    if target == "envoy":
        settings["admin"] = f"127.0.0.1:{free_port()}"
    if target == "haproxy":
        settings["runtime_socket"] = f"{folder}/admin.sock"
    return settings


def _fleet(engines: Sequence[Engine], ports: Mapping[str, int], tap: Tap) -> dict[str, Any]:
    servers = [{"address": f"127.0.0.1:{one.port}", "name": one.name} for one in engines]
    pool = {
        "engine": engines[0].kind.preset, "servers": servers, "max_in_flight": 4 * SLOTS,
        "health": {"interval": "500ms", "fall": 2, "rise": 1},
    }  # fmt: skip
    pools = {name: {**pool, "strategy": _strategy(name)} for name in ports if name != TAPPED}
    tapped = {**pool, "servers": [{"address": f"127.0.0.1:{tap.port}", "name": "tap"}], "health": False}
    return {
        "pools": {**pools, TAPPED: tapped},
        "listeners": {
            name: {"bind": f"127.0.0.1:{port}", "routes": [{"pool": name}]} for name, port in ports.items()
        },
    }


def _strategy(name: str) -> object:
    return {"name": name, "agent_port": free_port()} if name == "kv_cache" else STRATEGIES[name]


def _refusal(target: str, version: str, name: str) -> str:
    """Return why a target does not have a strategy; empty: it does."""
    pool = {"engine": "vllm", "servers": ["127.0.0.1:1", "127.0.0.1:2"], "strategy": STRATEGIES[name]}
    fleet = {"pools": {"chat": pool}, "targets": {target: {"version": str(Version.parse(version))}}}
    loaded = load([Source("fleet.yaml", json.dumps(fleet))], environ={}, targets=(target,))
    return "; ".join(problem.message for problem in loaded.problems if problem.is_error)
