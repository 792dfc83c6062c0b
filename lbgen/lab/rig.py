"""A fleet in containers: mock GPU servers, a balancer with rendered files, a network of their own.

Everything carries a label with its owner, and goes when the rig closes, when the program ends, and,
after a crash, when the next rig starts. Addresses are fixed, so that a server that was stopped comes back
where it was.
"""

from __future__ import annotations

import atexit
import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, Self, TypeVar

import docker
from docker.errors import APIError, NotFound
from docker.types import EndpointConfig, IPAMConfig, IPAMPool

from lbgen.lab.archive import CODE_FOLDER, pack, packed_code
from lbgen.lab.boxes import SUPERVISOR, Balancer, MockBox, placed
from lbgen.lab.owners import is_stale, owner
from lbgen.lab.problems import RigError
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.networks import Network

    from lbgen.render import RenderedFile

LABEL = "lbgen.rig"
"""On every container and network of ours; the value names the owner: host, process, its start time."""

PORT = 8080

Given = TypeVar("Given")
Made = TypeVar("Made")


class Rig:
    """A network and the containers on it; use it as a context manager."""

    def __init__(self, client: DockerClient | None = None) -> None:
        self._docker = client or connect()
        sweep(self._docker)
        self._labels = {LABEL: owner(os.getpid())}
        self._containers: list[Container] = []
        self.network = f"lbgen-rig-{os.getpid()}-{time.monotonic_ns() % 10**9}"
        self._made, self._addresses = self._make_network()
        self._hosts = itertools.count(10)
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything; may be called again."""
        atexit.unregister(self.close)
        _in_parallel(_remove_quietly, self._mine())
        self._containers.clear()
        try:
            self._made.remove()
        except APIError:
            return  # gone already, or swept at the next start

    def _mine(self) -> tuple[Container, ...]:
        """Return all containers on this network: also one that an interrupt kept us from hearing of."""
        label = f"{LABEL}={self._labels[LABEL]}"
        try:
            found = self._docker.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        except APIError:
            return tuple(self._containers)
        return tuple(one for one in found if self.network in one.attrs["NetworkSettings"]["Networks"])

    @property
    def gateway(self) -> str:
        """The address of this machine on the network."""
        return str(self._addresses[1])

    def mocks(
        self,
        names: Iterable[str],
        image: str,
        *,
        port: int = 8000,
        beside: Mapping[str, bytes] = {},
        **options: object,
    ) -> list[MockBox]:
        """Start a mock GPU server for each name, with options of its command line; return them when ready.

        `beside`: further files in its container.
        """
        archive = pack(beside)

        def start(name: str) -> MockBox:
            words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
            command = [
                "sh",
                "-c",
                SUPERVISOR,
                "mock",
                "python3",
                "-m",
                "lbgen.lab.mock.mock_gpu",
                f"--port={port}",
                f"--name={name}",
                *words,
            ]
            box = MockBox(*self._start(name, image, command, (packed_code(), archive)), port)
            box.wait_ready("/health")
            return box

        return _in_parallel(start, tuple(names))

    def balancer(
        self,
        target: str,
        image: str,
        files: Iterable[RenderedFile],
        *,
        probe: str | None = "/lb/live",
        beside: bytes | None = None,
    ) -> Balancer:
        """Start NGINX or HAProxy with the rendered files as they are; return it when it answers.

        `probe` None: when it listens. `beside`: an archive of further files. Raises `RigError`.
        """
        archives = [pack(placed(target, files)), *([beside] if beside else ())]
        box = Balancer(*self._start("lb", image, command_of(target), archives), PORT, target)
        if probe is None:
            box.wait_open()
        else:
            box.wait_ready(probe)
        return box

    def _start(
        self, name: str, image: str, command: list[str], archives: Iterable[bytes]
    ) -> tuple[Container, str]:
        address = str(self._addresses[next(self._hosts)])
        endpoint = EndpointConfig(self._docker.api.api_version, aliases=[name], ipv4_address=address)
        try:
            container = self._docker.containers.create(
                image, command, entrypoint=[], hostname=name, labels=self._labels, network=self.network,
                networking_config={self.network: endpoint}, environment={"PYTHONPATH": CODE_FOLDER},
            )  # fmt: skip
            self._containers.append(container)
            for archive in archives:
                container.put_archive("/", archive)
            container.start()
        except APIError as error:
            raise RigError(f"the image {image} does not run {command[0]}: {error.explanation}") from None
        return container, address

    def _make_network(self) -> tuple[Network, IPv4Network]:
        """Make a network whose addresses nobody else has: 4,094, since none is used twice."""
        first = os.getpid()
        for attempt in range(200):
            number = (first + attempt) % 320
            addresses = IPv4Network(f"10.{211 + number // 16}.{number % 16 * 16}.0/20")
            pool = IPAMPool(subnet=str(addresses), gateway=str(addresses[1]))
            try:
                network = self._docker.networks.create(
                    self.network, driver="bridge", labels=self._labels, ipam=IPAMConfig(pool_configs=[pool])
                )
            except APIError as error:
                if "overlap" not in str(error):
                    raise RigError(f"Docker makes no network: {error}") from None
            else:
                return network, addresses
        raise RigError("no free network among 200 tried: is 10.211.0.0/16 to 10.230.0.0/16 in use here?")


def command_of(target: str) -> list[str]:
    """Return the command that runs a balancer by the files in its usual folder."""
    return TARGETS[target].program.in_container(TARGETS[target].directory)


def connect() -> DockerClient:
    """Return a client of the Docker engine; raises `RigError`."""
    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except docker.errors.DockerException as error:
        raise RigError(_why_not(str(error))) from None
    return client


def _why_not(text: str) -> str:
    """Return why Docker is not to be had, from the words of its client."""
    if "PermissionError" in text:
        return "Docker is here, but this user may not use it (the group docker may)"
    for words in ("FileNotFoundError", "Connection refused", "ConnectionRefusedError"):
        if words in text:
            return "no Docker engine answers"
    return f"no Docker engine answers: {text}"


def sweep(client: DockerClient) -> None:
    """Remove what rigs left behind whose program is gone."""
    # Others may be removing theirs meanwhile.
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        if is_stale(container.labels[LABEL]):
            _remove_quietly(container)
    for network in client.networks.list(filters={"label": LABEL}):
        if is_stale(network.attrs["Labels"][LABEL]):
            _remove_quietly(network)


def _remove_quietly(thing: Any) -> None:  # noqa: ANN401 - a container or a network
    try:
        thing.remove(**({"force": True, "v": True} if hasattr(thing, "kill") else {}))
    except (APIError, NotFound):
        return  # somebody else swept it


def _in_parallel(do: Callable[[Given], Made], things: tuple[Given, ...]) -> list[Made]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(do, things))
