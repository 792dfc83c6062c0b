"""The playbooks, run by Ansible itself against a balancer of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from integration.fleets import Proxy
from integration.pods import lbgen
from integration.waiting import eventually
from lbgen.lab.boxes import fetch
from lbgen.lab.owners import owner
from lbgen.lab.rig import LABEL, command_of, connect
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import MockBox

pytestmark = pytest.mark.slow

PLAYBOOKS = Path(__file__).parent.parent / "examples" / "ansible"
PROXY = Proxy("bookworm", "haproxy")


class Host(NamedTuple):
    """A balancer that runs in a container on this machine's own network, with its folder here."""

    folder: Path
    port: int
    servers: tuple[str, ...]
    container: str

    @property
    def main(self) -> Path:
        return self.folder / "haproxy.cfg"

    def fleet(self, text: str = "", **pool: Any) -> Path:
        """Write a fleet, or some text, and return the file."""
        value = {
            "name": "ansible",
            "pools": {"chat": {"engine": "vllm", "servers": list(self.servers), **pool}},
            "listeners": {"local": {"bind": f"127.0.0.1:{self.port}"}},
            "targets": {"haproxy": {"version": PROXY.version}},
        }
        path = self.folder.parent / "fleet.yaml"
        path.write_text(text or yaml.safe_dump(value))
        return path

    def digest(self) -> str:
        """Return what the live probe says of the configuration that runs."""
        return str(json.loads(fetch(f"http://127.0.0.1:{self.port}/lb/live").body)["digest"])

    def serves(self) -> bool:
        try:
            return bool(self.digest())
        except OSError:
            return False


class Recap(NamedTuple):
    """What a run of a playbook came to."""

    changed: int
    failed: int
    text: str


def play(host: Host, playbook: str, *options: str) -> Recap:
    """Run a playbook against this machine as if it were the balancer's."""
    scratch = host.folder.parent / "ansible"
    scratch.mkdir(exist_ok=True)
    image, temporary = PROXY.image, scratch / "remote"
    variables = {
        "lbgen_fleet": str(host.folder.parent / "fleet.yaml"),
        "lbgen_directory": str(host.folder),
        "lbgen_reload": f"docker kill -s USR2 {host.container}",
        "lbgen_options": [f"--binary=haproxy=docker://{image}"],
        "lbgen_build": str(scratch / "build"),
        "lbgen_validate": f"docker run --rm -v {temporary}:{temporary}:ro {image} haproxy -c -f %s",
    }
    inventory = scratch / "inventory.yml"
    connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(yaml.safe_dump({"balancers": {"hosts": {"lb-0.example.org": connection}}}))
    program = Path(sys.executable).with_name("ansible-playbook")
    assert program.exists(), "Ansible is missing: pip install -e '.[dev]'"
    done = subprocess.run(
        [program, "-i", inventory, PLAYBOOKS / playbook, "-e", json.dumps(variables), *options],
        env={**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
             "ANSIBLE_HOME": str(scratch), "ANSIBLE_REMOTE_TEMP": str(temporary), "ANSIBLE_NOCOLOR": "1",
             "ANSIBLE_LOCAL_TEMP": str(scratch / "local")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    recap = re.search(r"changed=(\d+) .*failed=(\d+)", done.stdout)
    assert recap is not None, done.stdout + done.stderr
    assert (done.returncode == 0) == (recap[2] == "0")
    return Recap(int(recap[1]), int(recap[2]), done.stdout + done.stderr)


@pytest.fixture
def host(mocks: list[MockBox], tmp_path: Path) -> Iterator[Host]:
    """A balancer that runs the first version of a fleet."""
    servers = tuple(f"{mock.address}:8000" for mock in mocks)
    made = Host(tmp_path / "haproxy", free_port(), servers, f"lbgen-ansible-{uuid.uuid4().hex[:8]}")
    made.fleet()
    assert lbgen("render", "fleet.yaml", "-t", "haproxy", "-o", ".", cwd=tmp_path).returncode == 0
    container = connect().containers.run(
        PROXY.image, command_of("haproxy"), entrypoint=[], name=made.container, detach=True,
        network_mode="host", labels={LABEL: owner(os.getpid())},
        volumes={str(made.folder): {"bind": "/etc/haproxy", "mode": "ro"}},
    )  # fmt: skip
    try:
        eventually(made.serves, 30, "the balancer answers")
        yield made
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("playbook", ["apply.yml", "copy.yml"])
def test_changed_then_ok_then_refused(host: Host, playbook: str) -> None:
    first, before = host.main.read_bytes(), host.digest()
    assert play(host, playbook).changed == 0

    host.fleet(strategy="random_two")
    looked = play(host, playbook, "--check")
    assert (looked.changed > 0, looked.failed) == (True, 0), looked.text
    assert host.main.read_bytes() == first

    done = play(host, playbook)
    assert (done.changed > 0, done.failed) == (True, 0), done.text
    assert "random(2)" in host.main.read_text()
    eventually(lambda: host.digest() != before, 10, "the new configuration runs")

    again = play(host, playbook)
    assert (again.changed, again.failed) == (0, 0), again.text

    second = host.main.read_bytes()
    host.fleet("pools: {chat: {sorvers: [a:1]}}\n")
    broken = play(host, playbook)
    assert (broken.changed, broken.failed) == (0, 1)
    assert "unknown-key" in broken.text
    assert host.main.read_bytes() == second


@pytest.mark.parametrize("playbook", ["apply.yml", "copy.yml"])
def test_what_the_program_refuses_is_not_written(host: Host, playbook: str) -> None:
    first = host.main.read_bytes()
    path = host.fleet(strategy="random_two")
    value = yaml.safe_load(path.read_text())
    value["targets"]["haproxy"]["raw"] = {"global": ["no-such-keyword"]}
    path.write_text(yaml.safe_dump(value))
    refused = play(host, playbook)
    assert refused.failed == 1
    assert "no-such-keyword" in refused.text
    assert host.main.read_bytes() == first


def test_copy_makes_the_first_file(host: Host) -> None:
    host.main.unlink()
    done = play(host, "copy.yml")
    assert (done.changed > 0, done.failed) == (True, 0), done.text
    assert "balance leastconn" in host.main.read_text()
