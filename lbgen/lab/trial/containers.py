"""Trials in containers: a network of their own, labelled, and gone afterwards."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import docker
from docker.errors import APIError, ImageNotFound

from lbgen.checker.stand_ins import stand_in
from lbgen.checker.surroundings import Surroundings
from lbgen.lab.problems import RigError
from lbgen.lab.rig import PORT, Rig, connect
from lbgen.lab.trial.mapping import binds_of, readdressed, without_socket
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from docker import DockerClient

    from lbgen.lab.trial.mapping import Way
    from lbgen.model import Fleet, Pool
    from lbgen.render import RenderedFile

MOCK_IMAGE = "python:3.11-slim"
FURTHER_PORTS = 20_000
"""Where listeners that are not tried go, inside the balancer's container."""


class Containers:
    """Mock GPU servers and balancers in containers; a context manager."""

    name = "docker"

    def __init__(self, images: Mapping[str, str]) -> None:
        self._images = images
        self._client = connect()
        self._rig = Rig(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rig.close()

    def mocks(self, settings: Sequence[Mapping[str, object]]) -> dict[str, Address]:
        """Start mock GPU servers; return their addresses by name. Raises `RigError`."""
        image = self._image("mock", MOCK_IMAGE)
        found = {}
        for one in settings:
            options: dict[str, Any] = {
                key: value for key, value in one.items() if key not in {"name", "chunk_s"}
            }
            chunk_ms = float(str(one["chunk_s"])) * 1000
            (box,) = self._rig.mocks([str(one["name"])], image, chunk_ms=chunk_ms, **options)
            found[str(one["name"])] = Address(box.address, box.port)
        return found

    @contextmanager
    def balancer(
        self, target: str, fleet: Fleet, pool: Pool, way: Way, servers: Mapping[str, Address]
    ) -> Iterator[tuple[str, tuple[RenderedFile, ...]]]:
        """Run a balancer for the fleet; give its URL and its files. Raises `RigError`."""
        image = self._image(target, f"{target}:{fleet.target(target).version}")
        tried = way.listener.binds[0]
        listeners = {
            bind: Address("*", PORT) if bind == tried else Address("127.0.0.1", FURTHER_PORTS + number)
            for number, bind in enumerate(binds_of(fleet))
        }
        moved = readdressed(fleet, pool, servers, listeners)
        moved = moved._replace(targets=tuple(without_socket(one, "/tmp") for one in moved.targets))  # noqa: S108 - the container's
        with tempfile.TemporaryDirectory(prefix="lbgen-trial-") as name:
            directory = fleet.target(target).directory
            around = Surroundings(Path(name), directory, in_container=True, resolve=False)
            moved = stand_in(moved, target, around, opens=False)
        files = render(moved, target, secrets=StandInSecrets())
        box = self._rig.balancer(target, image, files, probe=way.listener.status.live or "/")
        try:
            yield box.url, files
        finally:
            box.remove()

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
    repository, _, tag = image.partition(":")
    try:
        client.images.pull(repository, tag or "latest")
    except (APIError, docker.errors.DockerException) as error:
        raise RigError(
            f"the image {image} is neither here nor to be had ({error}): name another with "
            f"--image {program}=IMAGE"
        ) from None
