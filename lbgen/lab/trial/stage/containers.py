"""Trials in containers: a network of their own, labelled, and gone afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import docker
from docker.errors import APIError, ImageNotFound
from docker.utils import parse_repository_tag

from lbgen.checker.stand_ins import stand_in
from lbgen.checker.surroundings import Surroundings
from lbgen.lab import owners
from lbgen.lab.archive import pack
from lbgen.lab.problems import RigError
from lbgen.lab.rig import PORT, Rig, connect
from lbgen.lab.trial.load.sending import Marks
from lbgen.lab.trial.stage.certificates import Bundle, contents, contents_of
from lbgen.lab.trial.stage.mapping import Standing, binds_of, version_in, within
from lbgen.lab.trial.stage.ready import Asked, Serving, ready
from lbgen.lab.trial.stage.watching import agent
from lbgen.render import RenderedFile
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets.registry import TARGETS
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from docker import DockerClient

    from lbgen.lab.trial.beside import Beside
    from lbgen.lab.trial.stage.mapping import Way
    from lbgen.model import Fleet, Pool

MOCK_IMAGE = "python:3.11-slim"
MOCK_PORT, MOCK_TLS_PORT = 8000, 8443
CERTIFICATE = "/lab/mock.pem"
AT_ONCE = 8
"""Containers that are started side by side."""
FURTHER_PORTS = 20_000
"""Where listeners that are not tried go, inside the balancer's container."""


SOCKETS = "/tmp/lbgen"  # noqa: S108 - in a container of our own


class Inside(Surroundings):
    """A container: files of this machine are copied into it, and its program stays who it is."""

    def user(self, name: str | None) -> str | None:
        """Return None: whom the image knows is not known."""
        if name is not None:
            self.note("user", name)
        return None

    def listens(self, address: Address) -> bool:
        """Return True: every address is mapped to one of the container's own."""
        del address
        return True


class Containers:
    """Mock GPU servers and balancers in containers; a context manager."""

    name = "docker"

    def __init__(self, images: Mapping[str, str]) -> None:
        self._images = images
        self._client = connect()
        self._stack = ExitStack()
        self._rig = self._stack.enter_context(Rig(self._client))
        self._folder = Path(self._stack.enter_context(owners.make_folder()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def mocks(self, settings: Sequence[Mapping[str, object]], pool: Pool) -> dict[str, Standing]:
        """Start mock GPU servers for a pool; return where they are by name. Raises `RigError`."""
        image = self._image("mock", MOCK_IMAGE)
        self._bundle = Bundle.make(self._folder, pool)
        beside = {CERTIFICATE: self._bundle.path.read_bytes()} if pool.tls else {}
        secured = {"tls_port": MOCK_TLS_PORT, "certificate": CERTIFICATE} if pool.tls else {}

        def start(one: Mapping[str, object]) -> tuple[str, Standing]:
            options: dict[str, Any] = {
                key: value for key, value in one.items() if key not in {"name", "chunk_s"}
            }
            options |= {"chunk_ms": float(str(one["chunk_s"])) * 1000, **secured}
            name = str(one["name"])
            (box,) = self._rig.mocks([name], image, port=MOCK_PORT, beside=beside, **options)
            control = Address(box.address, MOCK_PORT)
            return name, Standing(control._replace(port=MOCK_TLS_PORT) if pool.tls else control, control)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            return dict(threads.map(start, settings))

    @contextmanager
    def balancer(self, asked: Asked, way: Way) -> Iterator[Serving]:
        """Run a balancer; give where it serves, and its files. Raises `RigError`."""
        target, fleet = asked.target, asked.fleet
        image = self._image(target, TARGETS[target].program.image(fleet.target(target).version))
        if Marks.of(asked.pool).kind == "ip":
            raise RigError("to containers all requests come from one address: use --runtime process")
        tried = way.listener.binds[0]
        listeners = {
            bind: Address("*", PORT) if bind == tried else Address("127.0.0.1", FURTHER_PORTS + number)
            for number, bind in enumerate(binds_of(fleet))
        }
        with ExitStack() as stack:
            if kv_of(asked.pool):
                watching = agent(asked.pool, asked.servers, self._folder, self._rig.gateway)
                asked = asked._replace(agent=stack.enter_context(watching))
            made = ready(asked, listeners, self._bundle, self._stood_in(asked))
            try:
                beside = pack(contents_of(made.fleet), folders=[SOCKETS, str(self._folder)])
                box = self._rig.balancer(target, image, made.files, probe=None, beside=beside)
            except RigError as error:
                raise RigError(f"{target} in {image}: {error}") from None
            stack.callback(box.remove)
            yield Serving.at(Address(box.address, PORT), way.listener, self._bundle, made)

    @contextmanager
    def beside(self, asked: Asked, found: Beside) -> Iterator[Serving]:
        """Run a file that lbgen did not write; give where it serves. Raises `RigError`."""
        target = TARGETS[asked.target]
        image = self._image(target.name, target.program.image(version_in(asked.fleet, target.name)))
        binds = {
            bind: Address("*", PORT)
            if bind == found.entrance.bind
            else Address("127.0.0.1", FURTHER_PORTS + number)
            for number, bind in enumerate(found.foreign.binds)
        }
        there = found.elsewhere(asked.servers, binds, SOCKETS, str(self._bundle.path))
        moved = found.foreign.moved(there)
        files = (RenderedFile(target.main_file, moved.text),)
        known = [str(one.found) for one in found.foreign.files if one.found] + [str(self._bundle.path)]
        try:
            beside = pack(contents(known), folders=[SOCKETS, str(self._folder)])
            box = self._rig.balancer(target.name, image, files, probe=None, beside=beside)
        except RigError as error:
            raise RigError(
                f"{found.file} in {image}: {moved.located(str(error), target.main_file)}"
            ) from None
        with ExitStack() as stack:
            stack.callback(box.remove)
            yield Serving.beside(Address(box.address, PORT), asked, found, self._bundle, moved.changes)

    def _stood_in(self, asked: Asked) -> Callable[[Fleet], Fleet]:
        """Return what makes a fleet one that runs in a container, with the certificates of this machine."""
        directory = asked.fleet.target(asked.target).directory
        around = Inside(self._folder, directory, in_container=False, resolve=False)
        return lambda fleet: within(stand_in(fleet, asked.target, around, opens=True), SOCKETS)

    def _image(self, program: str, official: str) -> str:
        """Return an image that is there, fetched when it is an official one. Raises `RigError`."""
        named = self._images.get(program)
        image = named or official
        if not _is_there(self._client, image):
            _fetch(self._client, program, image)
        return image


def _is_there(client: DockerClient, image: str) -> bool:
    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _fetch(client: DockerClient, program: str, image: str) -> None:
    repository, tag = parse_repository_tag(image)
    try:
        client.images.pull(repository, tag or "latest")
    except (APIError, docker.errors.DockerException) as error:
        reason = " ".join(str(getattr(error, "explanation", None) or error).split())
        raise RigError(
            f"the image {image} is neither here nor available: give another with --image {program}=IMAGE, "
            f"or use the installed programs with --runtime process (Docker says: {reason})"
        ) from None
