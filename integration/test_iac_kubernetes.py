"""``render --as configmap`` and ``--as kustomize``: the manifests are valid, and their pods serve."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from integration.fleets import Proxy, on_one_each
from integration.pods import Object, lbgen, objects, running
from integration.waiting import eventually
from lbgen.lab import load
from lbgen.lab.boxes import fetch

if TYPE_CHECKING:
    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig

KEY = "sk-of-the-team-in-a-pod"
PLAIN: dict[str, Any] = {
    "name": "Chat.EU",
    "balancers": 2,
    "pools": {"chat": {"engine": "vllm", "servers": "gpu-[0-3]:8000"}},
    "listeners": {"public": {"bind": "8080", "auth": "none"}},
}
KEYED: dict[str, Any] = {
    **PLAIN,
    "listeners": {"public": {"bind": "80", "auth": {"clients": "all"}}},
    "clients": {"team": {"key": "env:TEAM_KEY"}},
}


def rendered(fleet: dict[str, Any], proxy: Proxy, form: str, folder: Path) -> Path:
    """Render a fleet with the local image, and return the target's folder."""
    settings = {proxy.target: {"version": proxy.version, "drain_timeout": "2m"}}
    if proxy.target == "haproxy":
        settings["haproxy"]["runtime_socket"] = "/run/haproxy/admin.sock"
    folder.mkdir(exist_ok=True)
    (folder / "fleet.yaml").write_text(yaml.safe_dump({**fleet, "targets": settings}))
    image = f"--image={proxy.target}={proxy.image}"
    done = lbgen("render", "fleet.yaml", "--as", form, "-o", "out", image, cwd=folder, TEAM_KEY=KEY)
    assert done.returncode == 0, done.stderr
    return folder / "out" / proxy.target


def plain_objects(fleet: dict[str, Any], proxy: Proxy, folder: Path) -> dict[str, Object]:
    out = rendered(fleet, proxy, "configmap", folder)
    return objects(*(path.read_text() for path in sorted(out.rglob("kubernetes.yaml"))))


def held(made: dict[str, Object]) -> dict[str, Object]:
    return {"configMap": made["ConfigMap"], "secret": made.get("Secret", {})}


def test_a_pod_serves_and_ends_after_its_last_stream(
    rig: Rig, proxy: Proxy, mocks: list[MockBox], tmp_path: Path
) -> None:
    made = plain_objects(PLAIN, proxy, tmp_path)
    with running(rig, made["Deployment"], held(made), tmp_path / "config") as pod:
        eventually(pod.is_up, 30, f"the pod is up: {pod.container.logs().decode()}")
        eventually(lambda: pod.ask("readiness").status == 200, 30, "the pod is ready")
        assert not [line for line in pod.container.logs().decode().splitlines() if "[alert]" in line]

        stream = [load.Planned(0, 20, headers={"x-mock-pace": "0.1,0.2"})]
        results: list[load.Result] = []
        url = f"http://{pod.address}:8080"
        client = threading.Thread(
            target=lambda: results.extend(asyncio.run(load.run(url, stream, most_late_s=5)))
        )
        client.start()
        eventually(lambda: any(mock.state()["in_flight"] for mock in mocks), 10, "the stream runs")
        hook = pod.hook(sleep_10="sleep 0")
        pod.container.exec_run(list(hook), detach=True)
        client.join()
        assert results[0].ok, results
        assert pod.container.wait(timeout=30)["StatusCode"] == 0


@pytest.mark.usefixtures("mocks")
@on_one_each
def test_keys_are_in_a_secret_and_work(rig: Rig, proxy: Proxy, tmp_path: Path) -> None:
    made = plain_objects(KEYED, proxy, tmp_path)
    assert KEY not in yaml.safe_dump(made["ConfigMap"])
    assert "sysctls" in made["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    with running(rig, made["Deployment"], held(made), tmp_path / "config") as pod:
        eventually(pod.is_up, 30, f"the pod is up: {pod.container.logs().decode()}")
        url = f"http://{pod.address}:80/v1/models"
        assert fetch(url, Authorization=f"Bearer {KEY}").status == 200
        assert fetch(url).status == 401


@pytest.mark.usefixtures("mocks")
@on_one_each
def test_a_pod_with_tls_answers_its_probes(rig: Rig, proxy: Proxy, tmp_path: Path) -> None:
    fleet = {
        **PLAIN,
        "listeners": {
            "public": {
                "bind": "443", "auth": "none", "hosts": ["llm.example.org"], "redirect_from": 80,
                "tls": {"bundle": "/etc/ssl/llm/both.pem"},
            }
        },
    }  # fmt: skip
    own = tmp_path / "certificates"
    own.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=llm.example.org",
         "-keyout", own / "key.pem", "-out", own / "certificate.pem"],
        capture_output=True, check=True,
    )  # fmt: skip
    both = own / "both.pem"
    both.write_text((own / "certificate.pem").read_text() + (own / "key.pem").read_text())
    both.chmod(0o644)
    made = plain_objects(fleet, proxy, tmp_path)
    mounted = {"/etc/ssl/llm": str(own)}
    with running(rig, made["Deployment"], held(made), tmp_path / "config", mounted) as pod:
        eventually(pod.is_up, 30, f"the pod is up: {pod.container.logs().decode()}")
        eventually(lambda: pod.ask("readiness").status == 200, 30, "the pod is ready")
        pod.spec["livenessProbe"]["httpGet"].pop("httpHeaders")  # probes are answered under any name
        assert pod.ask("liveness").status == 200


@on_one_each
def test_another_fleet_is_another_pod(proxy: Proxy, tmp_path: Path) -> None:
    changed = {**PLAIN, "pools": {"chat": {"engine": "vllm", "servers": "gpu-[0-2]:8000"}}}
    first, same = (plain_objects(PLAIN, proxy, tmp_path / name) for name in ("one", "two"))
    second = plain_objects(changed, proxy, tmp_path / "three")
    pods = [made["Deployment"]["spec"]["template"] for made in (first, same, second)]
    assert pods[0] == pods[1]
    assert pods[0] != pods[2]
    assert first["Deployment"]["metadata"] == second["Deployment"]["metadata"]


@on_one_each
def test_time_to_end_is_longer_than_draining(proxy: Proxy, tmp_path: Path) -> None:
    pod = plain_objects(PLAIN, proxy, tmp_path)["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 120 + 10


@pytest.fixture
def kubectl() -> str:
    path = shutil.which("kubectl")
    if path is None:
        pytest.skip("kubectl is missing: apt-get install kubernetes-client")
    return path


@pytest.mark.parametrize("fleet", [PLAIN, KEYED], ids=["plain", "keyed"])
@on_one_each
def test_kustomize_makes_what_the_plain_manifests_hold(
    kubectl: str, fleet: dict[str, Any], proxy: Proxy, tmp_path: Path
) -> None:
    folder = rendered(fleet, proxy, "kustomize", tmp_path / "k")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built, plain = objects(done.stdout), plain_objects(fleet, proxy, tmp_path / "p")
    assert built.keys() == plain.keys()
    assert built["ConfigMap"]["data"] == plain["ConfigMap"]["data"]
    assert built["Service"] == plain["Service"]
    names = {built[kind]["metadata"]["name"] for kind in ("ConfigMap", "Secret") if kind in built}
    assert all(name.startswith(f"chat-eu-{proxy.target}-") for name in names)
    sources = built["Deployment"]["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"]
    assert {one["name"] for source in sources for one in source.values()} == names


@pytest.mark.usefixtures("mocks")
def test_what_kustomize_makes_serves(kubectl: str, rig: Rig, tmp_path: Path) -> None:
    proxy = Proxy("bookworm", "haproxy")
    folder = rendered(KEYED, proxy, "kustomize", tmp_path / "k")
    made = objects(subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True,
                                  check=True).stdout)  # fmt: skip
    with running(rig, made["Deployment"], held(made), tmp_path / "config") as pod:
        eventually(pod.is_up, 30, "the pod is up")
        url = f"http://{pod.address}:80/v1/models"
        assert fetch(url, Authorization=f"Bearer {KEY}").status == 200
        assert fetch(url).status == 401


@pytest.mark.parametrize("version", ["1.25", "1.30"])
@on_one_each
def test_manifests_follow_the_schema(version: str, proxy: Proxy, tmp_path: Path) -> None:
    validator = Path(sys.executable).with_name("kubernetes-validate")
    if not validator.exists():
        pytest.skip("kubernetes-validate is missing: pip install -e '.[dev]'")
    out = rendered(KEYED, proxy, "configmap", tmp_path)
    for path in out.rglob("kubernetes.yaml"):
        done = subprocess.run([validator, "--strict", "-k", version, path], capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
