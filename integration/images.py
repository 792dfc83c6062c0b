"""Container images of three Debian generations, each with NGINX, HAProxy and Python.

``python -m integration.images [SUITE...]`` builds what is missing. The images are made of Debian packages
alone, so that the tests run where no image registry can be reached. Elsewhere the official images serve: see
``resolve``. A new recipe leaves the images of the old one behind; this removes all that no container uses:
``docker image prune --all --filter label=lbgen-integration``.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import click
import docker
from docker.errors import DockerException, ImageNotFound

from integration import debian
from integration.debian import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal["nginx", "haproxy", "python"]

REPOSITORY = "lbgen-integration"
CHOICE = "LBGEN_TEST_IMAGES"
"""The environment variable that says where images come from: ``local`` or ``official``."""

RECIPE = 1
"""Raise it when the way of building changes, so that cached images are built anew."""

# All packages are named here: apt-get inside a sid image refuses the index once its Valid-Until has passed,
# a week after it was written, while debootstrap checks the signature alone.
PACKAGES = (
    "ca-certificates",
    "curl",
    "haproxy",
    "iproute2",
    "libnginx-mod-http-js",
    "nginx",
    "openssl",
    "procps",
    "python3",
    "socat",
)

# What no test needs. Debian's own slim images leave out the same documentation:
# https://github.com/debuerreotype/debuerreotype/blob/master/scripts/.slimify-excludes
EXCLUDED = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./var/cache/apt/*",
    "./var/cache/debconf/*-old",
    "./var/lib/apt/lists/*",
    "./var/log/*.log",
    "./usr/share/doc/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
)


@dataclass(frozen=True, slots=True)
class Generation:
    """What one Debian suite ships, as major.minor, and so which official image matches it."""

    nginx: str
    haproxy: str
    python: str
    packages: tuple[str, ...] = PACKAGES

    def expected(self) -> dict[Kind, str]:
        """Give the version that each program has to show."""
        return {"nginx": self.nginx, "haproxy": self.haproxy, "python": self.python}

    def official(self, kind: Kind) -> str:
        """Name the image of the same version on Docker Hub."""
        return f"{kind}:{self.expected()[kind]}" + ("-slim" if kind == "python" else "")


# Sources: https://packages.debian.org/nginx, https://packages.debian.org/haproxy,
# https://packages.debian.org/python3. sid moves on; ``verify`` then names the new version.
GENERATIONS: Mapping[str, Generation] = MappingProxyType(
    {
        "bookworm": Generation(nginx="1.22", haproxy="2.6", python="3.11"),
        "trixie": Generation(nginx="1.26", haproxy="3.0", python="3.13"),
        "sid": Generation(nginx="1.30", haproxy="3.2", python="3.14"),
    }
)

VERSION_PATTERNS: Mapping[Kind, re.Pattern[str]] = MappingProxyType(
    {
        "nginx": re.compile(r"nginx/(\d+\.\d+\.\d+)"),
        "haproxy": re.compile(r"HAProxy version (\d+\.\d+\.\d+)"),
        "python": re.compile(r"Python (\d+\.\d+\.\d+)"),
    }
)


def resolve(suite: str, kind: Kind) -> str:
    """Name the image to run ``kind`` of a generation in, built first when ``LBGEN_TEST_IMAGES=local``.

    Without a choice, a local image is taken when it is there, and the official one otherwise. Raises
    ImageError when the choice or the suite is unknown, or when ``ensure`` does.
    """
    choice = os.environ.get(CHOICE, "")
    if choice not in {"", "local", "official"}:
        raise ImageError(f"{CHOICE}={choice!r}: say local or official")
    if choice == "local":
        return ensure(suite)
    if not choice and exists(tag_of(suite)):
        return tag_of(suite)
    return generation_of(suite).official(kind)


def ensure(suite: str) -> str:
    """Give the tag of the suite's local image, built when missing; milliseconds when it is there.

    Raises ImageError when no engine answers, debootstrap fails, or the programs are not the generation's.
    """
    tag = tag_of(suite)
    if exists(tag):
        return tag
    debian.require_root(otherwise=f"set {CHOICE}=official to use images from Docker Hub")
    with _one_builder():
        if not exists(tag):
            debian.require_debootstrap()
            _build(suite, tag)
    return tag


def tag_of(suite: str) -> str:
    """Give the tag of a suite's image: its digest changes with everything that the image is made from."""
    recipe = {"recipe": RECIPE, "suite": suite, "excluded": EXCLUDED, **asdict(generation_of(suite))}
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{REPOSITORY}:{suite}-{digest[:12]}"


def generation_of(suite: str) -> Generation:
    """Look a suite up, or raise ImageError with those there are."""
    if suite not in GENERATIONS:
        raise ImageError(f"unknown suite {suite!r}: one of {', '.join(GENERATIONS)}")
    return GENERATIONS[suite]


def exists(image: str) -> bool:
    """Tell whether the engine holds the image."""
    try:
        engine().images.get(image)
    except ImageNotFound:
        return False
    return True


@functools.cache
def engine() -> docker.DockerClient:
    """Connect to the Docker engine, or raise ImageError when none answers."""
    try:
        return docker.from_env(timeout=600)
    except DockerException as error:
        raise ImageError(f"no Docker engine answers, start one (as root: .ci/docker.sh): {error}") from error


def versions(image: str) -> dict[Kind, str]:
    """Ask the programs in an image for their versions; one that is missing has no entry."""
    command = ["sh", "-c", "nginx -v; haproxy -v; python3 -V; true"]
    output = engine().containers.run(image, command, remove=True, stderr=True, network_mode="none").decode()
    found = {kind: pattern.search(output) for kind, pattern in VERSION_PATTERNS.items()}
    return {kind: match[1] for kind, match in found.items() if match}


def verify(suite: str, found: Mapping[Kind, str]) -> None:
    """Compare versions with the generation's, and raise ImageError with every program that differs."""
    wrong = [
        f"{kind} is {found.get(kind, 'missing')}, not {expected}"
        for kind, expected in generation_of(suite).expected().items()
        if not found.get(kind, "").startswith(expected + ".")
    ]
    if wrong:
        raise ImageError(f"Debian {suite} is not what GENERATIONS says: {'; '.join(wrong)}")


def _build(suite: str, tag: str) -> None:
    """Build, verify, and only then tag: an image with the tag is always a verified one."""
    with tempfile.TemporaryDirectory(prefix=f"{REPOSITORY}-") as folder:
        root = Path(folder) / suite
        debian.install(suite, generation_of(suite).packages, root)
        image = _import(suite, root)
    try:
        verify(suite, versions(image))
        engine().images.get(image).tag(tag)
    except BaseException:
        engine().images.remove(image, force=True)
        raise


@contextmanager
def _one_builder() -> Iterator[None]:
    """Let one process build at a time, as several may want the same image; the lock ends with the process."""
    with (Path(tempfile.gettempdir()) / f"{REPOSITORY}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _import(suite: str, root: Path) -> str:
    """Send a system's files to the engine, and give the identifier of the image that it makes of them.

    A tar that fails leaves the image broken off or without files, which ``verify`` need not notice.
    """
    command = ["tar", "--create", "--numeric-owner", "--one-file-system", f"--directory={root}"]
    command += [*(f"--exclude={pattern}" for pattern in EXCLUDED), "."]
    changes = [f"LABEL {REPOSITORY}={suite}", "ENV LANG=C.UTF-8", 'CMD ["bash"]']
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        answer = json.loads(
            engine().api.import_image_from_stream(_chunks(tar), changes=changes).splitlines()[-1]
        )
    if "error" in answer:
        raise ImageError(f"the engine refuses the image: {answer['error']}")
    if tar.returncode:
        engine().images.remove(answer["status"], force=True)
        raise ImageError(f"tar ended with {tar.returncode}")
    return str(answer["status"])


def _chunks(process: subprocess.Popen[bytes], size: int = 1 << 20) -> Iterator[bytes]:
    """Read the output of a process in pieces of at most ``size`` bytes."""
    assert process.stdout is not None  # the process is made with a pipe
    while piece := process.stdout.read(size):
        yield piece


@click.command()
@click.argument("suites", nargs=-1, metavar="[SUITE...]")
def main(suites: tuple[str, ...]) -> None:
    """Build the local images of Debian suites (all when none is named) and print what is in them."""
    try:
        for suite in suites or GENERATIONS:
            begin = time.monotonic()
            tag = ensure(suite)
            _report(tag, time.monotonic() - begin)
    except (ImageError, DockerException) as error:
        sys.exit(f"integration.images: {error}")


def _report(tag: str, seconds: float) -> None:
    """Print an image's tag, its size, how long it took, and the programs' versions."""
    size = engine().images.get(tag).attrs["Size"] / 1e6
    programs = "  ".join(f"{kind} {version}" for kind, version in versions(tag).items())
    click.echo(f"{tag}  {size:.0f} MB  {seconds:.1f} s  {programs}")


if __name__ == "__main__":
    main()
