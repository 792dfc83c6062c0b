"""Every example and every golden fleet passes the real checkers of every generation, without a warning."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.debian import ImageError
from integration.fleets import EVERY, Proxy
from lbgen.checker import check_target, vulnerabilities
from lbgen.checker.programs import Choice
from lbgen.fleet.load import Loaded, load
from lbgen.fleet.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
FLEETS = sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("tests/golden/*/fleet.yaml")])


def loaded(path: Path, proxy: Proxy) -> Loaded:
    """Return a fleet for one generation of one target, whatever version the file names."""
    source = Source(str(path.relative_to(ROOT)), path.read_text())
    versions = {proxy.target: proxy.version}
    return load([source], environ={}, targets=(proxy.target,), versions=versions)


def possible(path: Path, proxy: Proxy) -> bool:
    """Tell whether this generation can do what the fleet says: a golden may need a newer one."""
    found = loaded(path, proxy)
    return found.fleet is not None and not any(problem.is_error for problem in found.problems)


PAIRS = [(path, proxy) for path in FLEETS for proxy in EVERY if possible(path, proxy)]


def test_every_fleet_is_tried_with_each_target_or_named_for_one() -> None:
    tried = {path for path, _ in PAIRS}
    assert tried == set(FLEETS)
    for path in ROOT.glob("examples/*.yaml"):
        assert [proxy for other, proxy in PAIRS if other == path] == list(EVERY), path.name


class Programs:
    """The programs of all generations, each in one container that sees this machine's temporary files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._containers: dict[str, str] = {}

    def choice(self, proxy: Proxy) -> Choice:
        """Return the choice of a generation's program; raises `ImageError`."""
        image = proxy.image
        if image not in self._containers:
            share = f"{tempfile.gettempdir()}:{tempfile.gettempdir()}"
            self._containers[image] = docker(
                "run",
                "--detach",
                "--rm",
                "--init",
                "--network=none",
                "--sysctl=net.ipv6.conf.all.disable_ipv6=0",
                f"--volume={share}",
                image,
                "sleep",
                "inf",
            )
        script = self._folder / str(proxy)
        script.write_text(f'#!/bin/sh\nexec docker exec {self._containers[image]} {proxy.target} "$@"\n')
        script.chmod(0o755)
        return Choice(named={proxy.target: str(script)})

    def end(self) -> None:
        """Remove the containers."""
        for container in self._containers.values():
            docker("rm", "--force", container)


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    made = Programs(tmp_path_factory.mktemp("programs"))
    yield made
    made.end()


@pytest.mark.parametrize(
    ("path", "proxy"), PAIRS, ids=[f"{path.parent.name}-{path.stem}-{proxy}" for path, proxy in PAIRS]
)
def test_the_checker_has_nothing_to_say(path: Path, proxy: Proxy, programs: Programs) -> None:
    try:
        choice = programs.choice(proxy)
    except ImageError as error:
        pytest.skip(str(error))
    fleet = loaded(path, proxy).fleet
    assert fleet is not None
    verdict = check_target(fleet, proxy.target, choice)
    assert verdict.checked, verdict
    # What the program itself has is no matter of the files.
    said = [problem.message for problem in verdict.problems if problem.code != vulnerabilities.CODE]
    assert not said
