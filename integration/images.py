"""Container images of three Debian generations, each with NGINX, HAProxy and Python.

``python -m integration.images [SUITE...]`` builds what is missing. The images are made by debootstrap from Debian packages
alone, so that the tests run where no image registry can be reached. Elsewhere the official images serve: see ``resolve``.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import click
import docker
from docker.errors import DockerException, ImageNotFound

Kind = Literal["nginx", "haproxy", "python"]

REPOSITORY = "lbgen-integration"
CHOICE = "LBGEN_TEST_IMAGES"
"""The environment variable that says where images come from: ``local`` or ``official``."""

DEFAULT_MIRROR = "http://deb.debian.org/debian"
RECIPE = 1
"""Raise it when the way of building changes, so that cached images are built anew."""

# All packages are named here: apt-get inside a sid image refuses the index once its Valid-Until has passed, a week
# after it was written, while debootstrap checks the signature alone.
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

# Content of the system that no test needs. Debian's own slim images leave out the same documentation:
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


class ImageError(RuntimeError):
    """An image cannot be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What one Debian suite ships, as major.minor, and so which official image matches it."""

    nginx: str
    haproxy: str
    python: str
    packages: tuple[str, ...] = PACKAGES

    def expected(self) -> dict[Kind, str]:
        """The version that each program has to show."""
        return {"nginx": self.nginx, "haproxy": self.haproxy, "python": self.python}

    def official(self, kind: Kind) -> str:
        """The image of the same version on Docker Hub."""
        return f"{kind}:{self.expected()[kind]}" + ("-slim" if kind == "python" else "")


# Sources: https://packages.debian.org/nginx, https://packages.debian.org/haproxy, https://packages.debian.org/python3.
# sid moves on; ``verify`` then names the new version.
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
    """The image to run ``kind`` of a generation in, built first when ``LBGEN_TEST_IMAGES=local``.

    Without a choice, a local image is taken when it is there, and the official one otherwise.

    Raises:
        ImageError: the choice or the suite is unknown, or the local image cannot be built.
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
    """The tag of the suite's local image, which is built when missing; milliseconds when it is there.

    Raises:
        ImageError: no engine answers, debootstrap cannot run, or the versions are not those of the generation.
    """
    tag = tag_of(suite)
    if exists(tag):
        return tag
    with _one_builder(suite):
        if not exists(tag):
            _build(suite, tag)
    return tag


def tag_of(suite: str) -> str:
    """The tag of a suite's image: its digest changes with everything that the image is made from."""
    recipe = {"recipe": RECIPE, "suite": suite, "excluded": EXCLUDED, **asdict(generation_of(suite))}
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{REPOSITORY}:{suite}-{digest[:12]}"


def generation_of(suite: str) -> Generation:
    """The table's entry for a suite.

    Raises:
        ImageError: there is none.
    """
    if suite not in GENERATIONS:
        raise ImageError(f"unknown suite {suite!r}: one of {', '.join(GENERATIONS)}")
    return GENERATIONS[suite]


def exists(image: str) -> bool:
    """Whether the engine holds the image."""
    try:
        engine().images.get(image)
    except ImageNotFound:
        return False
    return True


@functools.cache
def engine() -> docker.DockerClient:
    """The client of the Docker engine.

    Raises:
        ImageError: none answers.
    """
    try:
        return docker.from_env(timeout=600)
    except DockerException as error:
        raise ImageError(f"no Docker engine answers, start one (as root: .ci/docker.sh): {error}") from error


def versions(image: str) -> dict[Kind, str]:
    """What the programs in an image call themselves, as major.minor.patch; a program that is missing has no entry."""
    command = ["sh", "-c", "nginx -v; haproxy -v; python3 -V; true"]
    output = engine().containers.run(image, command, remove=True, stderr=True, network_mode="none").decode()
    found = {kind: pattern.search(output) for kind, pattern in VERSION_PATTERNS.items()}
    return {kind: match[1] for kind, match in found.items() if match}


def verify(suite: str, found: Mapping[Kind, str]) -> None:
    """Compare versions with the generation's.

    Raises:
        ImageError: with every program that differs.
    """
    wrong = [
        f"{kind} is {found.get(kind, 'missing')}, not {expected}"
        for kind, expected in generation_of(suite).expected().items()
        if not found.get(kind, "").startswith(expected + ".")
    ]
    if wrong:
        raise ImageError(f"Debian {suite} is not what GENERATIONS says: {'; '.join(wrong)}")


def _build(suite: str, tag: str) -> None:
    """Build, verify, and only then tag: an image with the tag is always a verified one."""
    _require_debootstrap()
    with tempfile.TemporaryDirectory(prefix=f"{REPOSITORY}-") as folder:
        root = Path(folder) / suite
        _debootstrap(suite, root)
        image = _import(suite, root)
    try:
        verify(suite, versions(image))
        engine().images.get(image).tag(tag)
    except BaseException:
        engine().images.remove(image, force=True)
        raise


@contextmanager
def _one_builder(suite: str) -> Iterator[None]:
    """Make other processes wait that want the same image; the lock ends with the process."""
    path = Path(tempfile.gettempdir()) / f"{REPOSITORY}-{suite}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _require_debootstrap() -> None:
    """Install debootstrap when it is missing and apt-get can do it."""
    advice = f"or set {CHOICE}=official to use images from Docker Hub"
    if os.geteuid() != 0:
        raise ImageError(f"building an image needs root, as debootstrap makes a system: run as root, {advice}")
    if shutil.which("debootstrap"):
        return
    if not shutil.which("apt-get"):
        raise ImageError(f"install debootstrap and debian-archive-keyring, {advice}")
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "debootstrap", "debian-archive-keyring"])


def _debootstrap(suite: str, root: Path) -> None:
    """Install the suite's packages into ``root``, with signatures checked.

    A mount namespace of its own takes debootstrap's mounts of /proc and /sys away with it, however it ends: removing
    the folder can never reach into them.
    """
    options = ["--variant=minbase", "--force-check-gpg", f"--include={','.join(generation_of(suite).packages)}"]
    log = root / "debootstrap" / "debootstrap.log"
    try:
        _run(["unshare", "--mount", "debootstrap", *options, suite, str(root), mirror()])
    except ImageError as error:
        details = log.read_text(errors="replace")[-2000:] if log.is_file() else ""
        raise ImageError(f"{error}\n{details}".rstrip()) from error


def _import(suite: str, root: Path) -> str:
    """Send a system's files to the engine; the identifier of the image that it makes of them."""
    command = ["tar", "--create", "--numeric-owner", "--one-file-system", f"--directory={root}"]
    command += [f"--exclude={pattern}" for pattern in EXCLUDED] + ["."]
    changes = [f"LABEL {REPOSITORY}={suite}", "ENV LANG=C.UTF-8", 'CMD ["bash"]']
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        answer = engine().api.import_image_from_stream(_chunks(tar), changes=changes)
    if tar.returncode:
        raise ImageError(f"tar ended with {tar.returncode}")
    last = json.loads(answer.strip().splitlines()[-1])
    if "error" in last:
        raise ImageError(f"the engine refuses the image: {last['error']}")
    return str(last["status"])


def _chunks(process: subprocess.Popen[bytes], size: int = 1 << 20) -> Iterator[bytes]:
    """The output of a process in pieces of at most ``size`` bytes."""
    assert process.stdout is not None  # the process is made with a pipe
    while piece := process.stdout.read(size):
        yield piece


def mirror() -> str:
    """The Debian mirror that this machine uses, or Debian's own.

    apt names its sources whichever of its file formats they are written in. Only an archive of that name is a mirror of
    Debian: others, such as Debian's security archive, hold a part of the packages.
    """
    if not shutil.which("apt-get"):
        return DEFAULT_MIRROR
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    return mirror_in(subprocess.run(listing, capture_output=True, text=True, check=False).stdout)


def mirror_in(listing: str) -> str:
    """The first Debian mirror in lines of ``URI component``."""
    found = re.search(r"^(https?://\S+/debian)/? main$", listing, re.MULTILINE)
    return found[1] if found else DEFAULT_MIRROR


def _run(command: list[str]) -> None:
    """Run a command that says nothing unless it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ImageError(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")


@click.command()
@click.argument("suites", nargs=-1, metavar="[SUITE...]")
def main(suites: tuple[str, ...]) -> None:
    """Build the local images of Debian suites (all when none is named) and print what is in them."""
    try:
        for suite in suites or GENERATIONS:
            begin = time.monotonic()
            tag = ensure(suite)
            seconds = time.monotonic() - begin
            size = engine().images.get(tag).attrs["Size"] / 1e6
            programs = "  ".join(f"{kind} {version}" for kind, version in versions(tag).items())
            click.echo(f"{tag}  {size:.0f} MB  {seconds:.1f} s  {programs}")
    except ImageError as error:
        sys.exit(f"integration.images: {error}")


if __name__ == "__main__":
    main()
