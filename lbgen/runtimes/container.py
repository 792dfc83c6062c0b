"""Programs in container images, over the Docker SDK (the extra ``lab``)."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.runtimes.process import TIMEOUT_S, package_of
from lbgen.runtimes.spec import Finished, NoProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LABEL = "lbgen"
"""On every container that lbgen makes, so that what is left of a killed run can be found."""


class ContainerProgram(NamedTuple):
    """A program in an image; each run is a container of its own, which is removed afterwards."""

    image: str
    name: str
    in_container: bool = True

    @property
    def place(self) -> str:
        """Return the image as ``docker://IMAGE``."""
        return f"docker://{self.image}"

    def package(self) -> str:
        """Return the version of the Debian package that it belongs to; empty: there is none."""
        dpkg = self._replace(name="dpkg-query").run
        try:
            found = self._replace(name="which").run([self.name])
            return package_of(dpkg, found.output.strip()) if found.code == 0 else ""
        except NoProgramError:  # not made of Debian
            return ""

    def run(self, arguments: Sequence[str], folder: Path | None = None) -> Finished:
        """Run it without a network; the folder is copied in, so the engine may be on another machine."""
        from docker.errors import DockerException  # noqa: PLC0415 - 80 ms, and an extra

        try:
            with closing(_engine()) as engine:
                return _run(engine, self.image, [self.name, *arguments], folder)
        except (DockerException, OSError) as error:  # requests' errors are OSErrors
            raise NoProgramError(f"{self.place}: {_reason(error)}") from None


def find_in_image(image: str, name: str) -> ContainerProgram:
    """Return the program in an image, which is pulled when it is missing; raises `NoProgramError`."""
    with closing(_engine()) as engine:
        from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - see above

        try:
            engine.images.get(image)
        except ImageNotFound:
            _pull(engine, image)
        except (DockerException, OSError) as error:
            raise NoProgramError(f"docker://{image}: {_reason(error)}") from None
    return ContainerProgram(image, name)


def _engine() -> Any:  # noqa: ANN401 - docker's own type, which is not imported here
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if host.startswith("unix://") and not _listens(host.removeprefix("unix://")):
        raise NoProgramError("no Docker engine answers")
    try:
        import docker  # noqa: PLC0415 - 80 ms, and an extra
        from docker.errors import DockerException  # noqa: PLC0415
    except ImportError:
        raise NoProgramError("Docker needs the Python package docker: pip install 'lbgen[lab]'") from None
    try:
        return docker.from_env(timeout=TIMEOUT_S)
    except (DockerException, OSError):
        raise NoProgramError("no Docker engine answers") from None


def _listens(path: str) -> bool:
    # Before docker is imported, which takes 80 ms, and leaves a socket open when nobody listens (7.1).
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _pull(engine: Any, image: str) -> None:  # noqa: ANN401 - see above
    from docker.errors import DockerException  # noqa: PLC0415 - see above
    from docker.utils import parse_repository_tag  # noqa: PLC0415 - see above

    repository, tag = parse_repository_tag(image)
    try:
        engine.images.pull(repository, tag=tag or "latest")
    except (DockerException, OSError) as error:
        raise NoProgramError(f"Docker cannot get the image {image}: {_reason(error)}") from None


def _run(engine: Any, image: str, command: list[str], folder: Path | None) -> Finished:  # noqa: ANN401
    container = engine.containers.create(
        image, command, entrypoint=[], user="0", network_mode="none", labels={LABEL: "run"}
    )
    try:
        if folder is not None:
            container.put_archive("/", _archive(folder))
        container.start()
        code = int(container.wait(timeout=TIMEOUT_S)["StatusCode"])
        output = container.logs(stdout=True, stderr=True).decode(errors="replace")
    finally:
        container.remove(force=True, v=True)
    if code in {126, 127}:
        raise NoProgramError(f"docker://{image}: there is no {command[0]} in it")
    return Finished(128 - code if code > 128 else code, output)


def _archive(folder: Path) -> bytes:
    """Return the folder as a tar file that unpacks, at the root, to the same absolute name."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(folder, arcname=str(folder).lstrip("/"))
    return data.getvalue()


def _reason(error: Exception) -> str:
    """Return what the engine said, in one line."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split()) or type(error).__name__
