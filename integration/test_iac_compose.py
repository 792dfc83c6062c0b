"""``render --as compose``, run by Compose in front of services that are there already."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from integration.debian import ImageError
from integration.fleets import Proxy
from integration.images import resolve
from integration.pods import lbgen
from integration.waiting import eventually
from lbgen.lab.archive import CODE_FOLDER, packed_code
from lbgen.lab.boxes import fetch
from lbgen.lab.owners import owner
from lbgen.lab.problems import RigError
from lbgen.lab.rig import LABEL, connect
from lbgen.manifests.compose import RESOLVER
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker.models.containers import Container

pytestmark = pytest.mark.slow

KEY = "sk-of-the-team-behind-compose"
SOMEBODY = 1000
LABELS = {LABEL: owner(os.getpid())}
MOCKS = ("vllm-0", "vllm-1")
PROXIES = [Proxy("bookworm", "nginx"), Proxy("bookworm", "haproxy"), Proxy("sid", "nginx"),
           Proxy("sid", "haproxy")]  # fmt: skip


def compose_program() -> list[str]:
    """Return the command of Compose, old or new; the test is skipped without one."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip("Compose is missing: apt-get install docker-compose")
    return ["docker", "compose"]


class Project(NamedTuple):
    """One Compose project, by the folder of its file."""

    folder: Path
    name: str
    environ: dict[str, str]

    def __call__(self, *words: str) -> str:
        command = [*compose_program(), "-p", self.name, "-f", str(self.folder / "compose.yaml"), *words]
        done = subprocess.run(command, cwd=self.folder, env={**os.environ, **self.environ},
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self, service: str) -> dict[str, Any]:
        """Return what the engine says of a service's container."""
        container = self("ps", "-q", service).strip()
        return dict(connect().containers.get(container).attrs["State"])


@contextmanager
def up(project: Project) -> Iterator[Project]:
    try:
        project("up", "-d")
        yield project
    finally:
        project("down", "-v", "-t", "0")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A user's own project: two engines, as services of Compose."""
    try:
        connect()
        image = resolve("bookworm", "python")
    except (RigError, ImageError) as error:
        pytest.skip(f"{error}: install and start the Docker engine (as root: .ci/docker.sh)")
    folder = tmp_path_factory.mktemp("services")
    unpack = subprocess.run(["tar", "-x", "-C", folder], input=packed_code(), check=True)
    assert unpack.returncode == 0
    engine = {
        "image": image,
        "environment": {"PYTHONPATH": CODE_FOLDER},
        "volumes": [f".{CODE_FOLDER}:{CODE_FOLDER}:ro"],
        "stop_grace_period": "1s",
    }
    command = ["python3", "-m", "lbgen.lab.mock.mock_gpu", "--port=8000"]
    value = {"services": {name: {**engine, "command": [*command, f"--name={name}"]} for name in MOCKS}}
    (folder / "compose.yaml").write_text(yaml.safe_dump(value))
    with up(Project(folder, f"lbgen-services-{uuid.uuid4().hex[:8]}", {})) as project:
        yield project


def write(folder: Path, proxy: Proxy, port: int, network: str, servers: tuple[str, ...]) -> None:
    """Render a fleet whose listener asks for keys, in front of some of the services."""
    settings = {"version": proxy.version, "drain_timeout": "20s"}
    pool: dict[str, Any] = {"engine": "vllm", "servers": [f"{server}:8000" for server in servers]}
    if proxy.target == "haproxy":
        settings["runtime_socket"] = "/run/haproxy/admin.sock"
        pool["dns"] = {"mode": "runtime", "resolver": [RESOLVER], "valid": "1s"}
    fleet = {
        "name": "compose",
        "pools": {"chat": pool},
        "listeners": {"local": {"bind": f"127.0.0.1:{port}", "auth": {"clients": "all"}}},
        "clients": {"team": {"key": "env:TEAM_KEY"}},
        "targets": {proxy.target: settings},
    }
    folder.mkdir(exist_ok=True)
    (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    done = lbgen("render", "fleet.yaml", "--as", "compose", "--network", network, "-o", "out",
                 f"--image={proxy.target}={proxy.image}", cwd=folder, TEAM_KEY=KEY)  # fmt: skip
    assert done.returncode == 0, done.stderr
    if os.getuid() == 0 and proxy.generation == "sid":  # as a person who is not root would have rendered it
        for path in (folder / "out").rglob("*"):
            os.chown(path, SOMEBODY, SOMEBODY)


@pytest.mark.parametrize("proxy", PROXIES, ids=str)
def test_a_balancer_in_front_of_services(proxy: Proxy, services: Project, tmp_path: Path) -> None:
    port, network = free_port(), f"{services.name}_default"
    write(tmp_path, proxy, port, network, MOCKS[:1])
    folder = tmp_path / "out" / proxy.target
    (keys,) = (folder / "secrets").iterdir()
    user = {"LBGEN_USER": f"{keys.stat().st_uid}:{keys.stat().st_gid}"}
    made = Project(folder, f"lbgen-{uuid.uuid4().hex[:8]}", user)
    with up(made):
        eventually(lambda: healthy(made, proxy), 60, "the balancer is healthy")
        url = f"http://127.0.0.1:{port}"
        assert {served_by(url) for _ in range(6)} == {MOCKS[0]}
        assert fetch(f"{url}/v1/models").status == 401

        before = made.state(proxy.target)["Pid"]
        write(tmp_path, proxy, port, network, MOCKS)
        made("kill", "-s", {"nginx": "HUP", "haproxy": "USR2"}[proxy.target], proxy.target)
        eventually(lambda: {served_by(url) for _ in range(6)} == set(MOCKS), 20, "both servers are used")
        assert made.state(proxy.target)["Pid"] == before

        if proxy.target == "haproxy":
            move(services, MOCKS[1])
            eventually(lambda: {served_by(url) for _ in range(6)} == set(MOCKS), 60, "the name is followed")

        container = connect().containers.get(made("ps", "-q", proxy.target).strip())
        made("stop")
        container.reload()
        assert container.attrs["State"]["ExitCode"] == 0, container.logs().decode()[-2000:]


def move(project: Project, service: str) -> None:
    """Make a service anew while another container sits at its old address."""
    old, network = address(project, service), f"{project.name}_default"
    project("rm", "--stop", "--force", service)
    squatters: list[Container] = []
    try:
        while not squatters or address_of(squatters[-1], network) != old:
            assert len(squatters) < 20, f"nobody got {old}"
            image = resolve("bookworm", "python")
            squatters.append(connect().containers.run(image, ["sleep", "120"], network=network, detach=True,
                                                      labels=LABELS))  # fmt: skip
            squatters[-1].reload()
        project("up", "-d", service)
        assert address(project, service) != old
    finally:
        for squatter in squatters:
            squatter.remove(force=True)


def address(project: Project, service: str) -> str:
    container = connect().containers.get(project("ps", "-q", service).strip())
    return address_of(container, f"{project.name}_default")


def address_of(container: Container, network: str) -> str:
    return str(container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"])


def healthy(project: Project, proxy: Proxy) -> bool:
    state = project.state(proxy.target)
    assert state["Running"] or state["Status"] in {"created", "restarting"}, state
    return bool(state["Health"]["Status"] == "healthy")


def served_by(url: str) -> str:
    """Return the name of the engine that answered a completion; the status where none did."""
    body = json.dumps({"model": "mock", "prompt": "hello", "max_tokens": 1}).encode()
    answer = fetch(f"{url}/v1/completions", "POST", body, Authorization=f"Bearer {KEY}")
    return answer.headers.get("x-mock-server", str(answer.status))


def test_keys_need_a_user_who_may_read_them(services: Project, tmp_path: Path) -> None:
    proxy = PROXIES[0]
    write(tmp_path, proxy, free_port(), f"{services.name}_default", MOCKS)
    folder = tmp_path / "out" / proxy.target
    done = subprocess.run([*compose_program(), "-f", str(folder / "compose.yaml"), "config"], cwd=folder,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode != 0
    assert "UID:GID of who rendered" in done.stderr
