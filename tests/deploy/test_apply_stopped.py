"""Apply is stopped at every single act: by SIGKILL, by SIGTERM, by Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TARGETS = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}
BEFORE = """
pools: {chat: {engine: vllm, servers: [gpu-0:8000, gpu-1:8000]}}
listeners: {public: {bind: "127.0.0.1:8080", status: {live: false}}}
"""
AFTER = """
pools: {chat: {engine: vllm, servers: [gpu-0:8000, gpu-1:8000, gpu-2:8000]}}
listeners: {public: {bind: "127.0.0.1:8080", auth: {clients: all}, status: {live: false}}}
clients: {team-a: {key: "file:%s"}}
"""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WAYS = {"new side files": (BEFORE, AFTER), "fewer side files": (AFTER, BEFORE)}


class Ended(NamedTuple):
    """How one run ended."""

    status: int
    acts: list[str]


class Site:
    """A folder of files, and `running`: a copy of it that each reload makes, as a balancer reads it."""

    def __init__(
        self, target: str, folder: Path, way: tuple[str, str], stopper: subprocess.Popen[str]
    ) -> None:
        self.target, self.root, self._stopper = target, folder, stopper
        (folder / "key").write_text("sk-team-a\n")
        for name, text in zip(("old", "new"), way, strict=True):
            (folder / f"{name}.yaml").write_text(text.replace("%s", str(folder / "key")))
            assert self.apply(name).status == 0
            shutil.copytree(self.to, folder / name)

    @property
    def to(self) -> Path:
        return self.root / "files"

    @property
    def running(self) -> Path:
        return self.root / "running"

    def reset(self) -> None:
        """Go back to where the old version runs and nothing else was ever there."""
        for folder in (self.to, self.running):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.root / "old", folder)
        shutil.rmtree(self.to / ".lbgen-backup")

    def apply(self, fleet: str, at: int = 0, number: int = signal.SIGKILL) -> Ended:
        arguments = [
            "apply", str(self.root / f"{fleet}.yaml"), "-t", self.target, "--to", str(self.to),
            "--binary", "none", "--max-change", "100%",
            "--reload", f"sh -c 'rm -rf {self.running} && cp -rT {self.to} {self.running}'",
        ]  # fmt: skip
        assert self._stopper.stdin
        assert self._stopper.stdout
        self._stopper.stdin.write(json.dumps({"arguments": arguments, "at": at, "signal": number}) + "\n")
        self._stopper.stdin.flush()
        return Ended(**json.loads(self._stopper.stdout.readline()))

    def read(self, folder: str) -> dict[str, bytes]:
        """Return the files that belong to the configuration, by name."""
        place = self.root / folder
        files = (path for path in place.rglob("*") if path.is_file())
        names = {str(path.relative_to(place)): path.read_bytes() for path in files}
        return {name: data for name, data in names.items() if "/." not in f"/{name}"}

    def litter(self) -> list[str]:
        """Return what does not belong there when all is done."""
        names = (str(path.relative_to(self.to)) for path in self.to.rglob("*"))
        return [name for name in names if re.search(r"\.lbgen-(new|candidate)|unfinished", name)]


@pytest.fixture(scope="module")
def stopper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    folder = tmp_path_factory.mktemp("warm")
    (folder / "fleet.yaml").write_text(BEFORE)
    command = [sys.executable, "-m", "tests.deploy.stopper", str(folder / "fleet.yaml"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]


@pytest.fixture
def site(request: pytest.FixtureRequest, stopper: subprocess.Popen[str]) -> Iterator[Site]:
    target, way = request.param
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - where fsync costs nothing
    with TemporaryDirectory(dir=memory) as folder:
        yield Site(target, Path(folder), WAYS[way], stopper)


def sites(*ways: str, targets: Iterable[str] = TARGETS) -> pytest.MarkDecorator:
    cases = [(target, way) for target in targets for way in ways]
    return pytest.mark.parametrize("site", cases, indirect=True, ids=" ".join)


def acts(site: Site) -> list[str]:
    """Return what an undisturbed apply does."""
    site.reset()
    done = site.apply("new")
    assert done.status == 0
    assert site.read("files") == site.read("running") == site.read("new")
    assert len(done.acts) > 25, done.acts
    return done.acts


def missing(site: Site, files: dict[str, bytes]) -> list[str]:
    """Return the side files that the main file names and that are not there."""
    text = files[TARGETS[site.target]].decode()
    named = re.findall(r"(?:include |map_str\()(secrets/[\w.]+)", text)
    return [name for name in named if name not in files]


@sites(*WAYS)
def test_killed_at_any_act(site: Site) -> None:
    old, new = site.read("old"), site.read("new")
    for number, act in enumerate(acts(site), 1):
        site.reset()
        assert site.apply("new", number).status == -signal.SIGKILL, act
        found = site.read("files")
        for name, data in found.items():
            assert data in {old.get(name), new.get(name)}, f"{name} is not whole, killed before {act}"
        assert not missing(site, found), f"killed before {act}"
        assert site.read("running") in (old, new)

        assert site.apply("new").status == 0, f"the next apply after one killed before {act}"
        assert site.read("files") == new, act
        assert site.read("running") == new, f"nobody reloaded after an apply killed before {act}"
        assert not site.litter(), act


@sites("new side files", targets=["nginx"])
def test_killed_at_any_act_and_taken_back(site: Site) -> None:
    old = site.read("old")
    for number, act in enumerate(acts(site), 1):
        site.reset()
        site.apply("new", number)
        assert site.apply("old").status == 0, act
        assert site.read("files") == old, act
        assert site.read("running") == old, act
        assert not site.litter(), act


@sites("new side files", targets=["haproxy"])
def test_told_to_stop_at_any_act(site: Site) -> None:
    old, new = site.read("old"), site.read("new")
    seen = set()
    for at, act in enumerate(acts(site), 1):
        site.reset()
        ended = site.apply("new", at, STOPS[at % len(STOPS)])
        found = site.read("files")
        assert found in (old, new), f"half a change, stopped before {act}"
        assert site.read("running") == found, f"stopped before {act}"
        assert (found == new) == (ended.status == 0), (act, ended)
        seen.add(ended.status)
    assert seen == {0, 2, 130}
