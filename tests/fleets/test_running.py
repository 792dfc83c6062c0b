"""Public fleets as they run on the programs of this machine: each request reaches the pool that it is for."""

from __future__ import annotations

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from integration import envoy_site
from integration.envoy_site import MockServer
from lbgen.checker.programs import Choice, version_here
from lbgen.checker.stand_ins import stood_in
from lbgen.checker.surroundings import Surroundings
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.trial.stage.certificates import Bundle, ours
from lbgen.lab.trial.stage.mapping import binds_of, readdressed, within
from lbgen.lab.trial.stage.ready import write
from lbgen.lab.trial.stage.running import process, wait_for
from lbgen.render import render
from lbgen.runtimes.process import LocalProgram, find_local
from lbgen.secret_values import RealSecrets
from lbgen.targets.registry import TARGETS
from lbgen.units import Address
from tests.fleets.asked import ASKED, GRPC, NOBODY, REFUSED, Ask, Way
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.fleet.load import Loaded
    from lbgen.model import Fleet, Pool

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
SECRETS = {"TEAM_A_KEY": "sk-a", "TEAM_B_KEY": "sk-b", "TEAM_B_NEXT": "sk-c", "P": "pw"}
EACH = [(name, target) for name in ASKED for target in ("nginx", "haproxy", "envoy")]


def loaded(name: str, target: str) -> Loaded:
    """Read a fleet for the version of a program that is here."""
    version = "1.36" if target == "envoy" else version_here(target, Choice())
    if version is None:
        pytest.skip(f"{target} is not installed here")
    own: dict[str, dict[str, Any]] = {
        "nginx": {},
        "haproxy": {"max_connections": 1000},  # as many files as this machine lets it open
        "envoy": {"admin": f"127.0.0.1:{free_port()}"},
    }
    settings = {"version": str(version), **own[target]}
    (path,) = HERE.glob(f"{name}-*.yaml")
    over = Source("here.yaml", json.dumps({"targets": {target: settings}}))
    return load([Source(path.name, path.read_text()), over], environ={}, targets=(target,))


def here(target: str) -> LocalProgram:
    program = LocalProgram(envoy_site.program()) if target == "envoy" else find_local(target)
    assert program is not None
    return program


def _grpc_server(stack: ExitStack, name: str) -> int:
    def answer(request: bytes, context: Any) -> bytes:
        del request, context
        return name.encode()

    class Speech(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer) if details.method == GRPC else None

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Speech()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    stack.callback(server.stop, None)
    return int(port)


def _servers(
    stack: ExitStack, pool: Pool, bundle: Bundle, mocks: dict[str, MockServer]
) -> dict[str, Address]:
    """Start a server for each of a pool's; each says its pool's name and its own."""
    context = None
    if pool.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(bundle.path)
    found = {}
    for server in pool.servers:
        name = f"{pool.name}/{server.name}"
        if pool.protocol == "grpc":
            port = _grpc_server(stack, name)
        else:
            mocks[name] = mock = MockServer(name, context)
            stack.callback(mock.close)
            port = mock.port
        found[server.name] = Address("127.0.0.1", port)
    return found


@contextmanager
def running(
    fleet: Fleet, target: str, folder: Path
) -> Iterator[tuple[dict[Address, Address], dict[str, MockServer]]]:
    """Run a fleet with all addresses mapped to ports of this machine; give those, and the servers by name."""
    binds = {bind: Address("127.0.0.1", free_port()) for bind in binds_of(fleet)}
    folder.mkdir(mode=0o755)
    mocks: dict[str, MockServer] = {}
    with ExitStack() as stack:
        for pool in fleet.pools:
            bundle = Bundle.make(folder, pool) if pool.tls else Bundle(folder)
            trusting = ours(fleet, pool, bundle) if pool.tls else fleet
            fleet = readdressed(trusting, pool, _servers(stack, pool, bundle, mocks), binds)
        directory = fleet.target(target).directory
        around = Surroundings(folder, directory, in_container=False, resolve=False)
        program = here(target)
        shown = any(pool.tls and pool.tls.certificate for pool in fleet.pools)
        fleet = within(stood_in(fleet, target, around, program), str(folder), str(folder) if shown else None)
        files = render(fleet, target, secrets=RealSecrets(SECRETS))
        write(files, folder)
        output = folder / "output.log"
        words = [program.place, *TARGETS[target].program.in_foreground(folder / files[0].path)]
        one = stack.enter_context(process(words, output))
        for address in dict.fromkeys(binds.values()):
            wait_for(address, one, output, target)
        yield binds, mocks


def test_each_fleet_is_asked() -> None:
    assert {path.name.partition("-")[0] for path in HERE.glob("*.yaml")} == ASKED.keys()


@pytest.mark.parametrize(("name", "target"), EACH)
def test_requests_reach_their_pools(name: str, target: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    found = loaded(name, target)
    refused = [problem.message.split("'")[1] for problem in found.problems if problem.is_error]
    assert refused == REFUSED.get((name, target), []), found.problems
    if refused:
        return
    assert found.fleet is not None
    with running(found.fleet, target, tmp_path / "run") as (binds, mocks):
        for asked in ASKED[name]:
            check(Way.to(found.fleet, binds, asked.door), asked, mocks)


def check(way: Way, asked: Ask, mocks: Mapping[str, MockServer]) -> None:
    """Ask, as often as is asked for, and compare who answered."""
    for _ in range(asked.times):
        status, server = way.ask(asked)
        if isinstance(asked.answer, int):
            assert (status, server) == (asked.answer, NOBODY), asked
        else:
            pool, _, one = server.partition("/")
            assert (status, pool) == (200, asked.answer), (asked, status, server)
            assert one not in asked.never, asked
            if server in mocks:
                assert (asked.seen or asked.path) in [seen.path for seen in mocks[server].seen]
