"""A pod's container as the kubelet runs it: files mounted by link, its user, its limits, its last hook."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from lbgen.lab.boxes import Answer, fetch
from lbgen.lab.owners import owner
from lbgen.lab.rig import LABEL, connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from docker.models.containers import Container

    from lbgen.lab.rig import Rig

Object = dict[str, Any]
NOTHING: Mapping[str, str] = MappingProxyType({})


def lbgen(*arguments: object, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run one command line of lbgen in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "lbgen", *map(str, arguments)],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def objects(*texts: str) -> dict[str, Object]:
    """Return the objects of manifests by kind."""
    return {one["kind"]: one for text in texts for one in yaml.safe_load_all(text)}


class Pod(NamedTuple):
    """A running container of a Deployment."""

    container: Container
    address: str
    spec: Object
    """The container's part of the manifest."""

    def ask(self, question: str) -> Answer:
        """Send the request of a probe, as the kubelet does: to the address, and any certificate will do."""
        get = self.spec[f"{question}Probe"]["httpGet"]
        headers = {one["name"]: one["value"] for one in get.get("httpHeaders", ())}
        url = f"{get['scheme'].lower()}://{self.address}:{get['port']}{get['path']}"
        return self._ask_blindly(url, headers) if get["scheme"] == "HTTPS" else fetch(url, **headers)

    def _ask_blindly(self, url: str, headers: Mapping[str, str]) -> Answer:
        words = [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
        command = ["curl", "--silent", "--insecure", "--write-out", "%{http_code}", "--output", "/dev/null"]
        said = self.container.exec_run([*command, *words, url]).output
        assert isinstance(said, bytes)  # it is not streamed
        return Answer(int(said), {}, b"")

    def is_up(self) -> bool:
        """Tell whether the pod is alive by its own probe."""
        try:
            return self.ask("liveness").status == 200
        except OSError:
            return False

    def hook(self, **replaced: str) -> Sequence[str]:
        """Return the command that the kubelet runs before it sends a signal, with words replaced."""
        command: list[str] = self.spec["lifecycle"]["preStop"]["exec"]["command"]
        for old, new in replaced.items():
            command = [word.replace(old.replace("_", " "), new) for word in command]
        return command


@contextmanager
def running(
    rig: Rig, deployment: Object, held: Mapping[str, Object], folder: Path, own: Mapping[str, str] = NOTHING
) -> Iterator[Pod]:
    """Run the container of a Deployment with its ConfigMap and Secret (by kind).

    `own`: further folders of this machine by where they are mounted, as a patch of the user's would have it.
    """
    template = deployment["spec"]["template"]["spec"]
    (spec,) = template["containers"]
    security = template["securityContext"]
    volumes = {volume["name"]: volume for volume in template["volumes"]}
    mounts = {source: {"bind": place, "mode": "ro"} for place, source in own.items()}
    temporary = {}
    for mount in spec["volumeMounts"]:
        volume = volumes[mount["name"]]
        if "emptyDir" in volume:
            temporary[mount["mountPath"]] = f"mode=2777,gid={security['fsGroup']}"
        else:
            project(volume["projected"], held, folder, security["fsGroup"])
            mounts[str(folder)] = {"bind": mount["mountPath"], "mode": "ro"}
    client = connect()
    container = client.containers.create(
        spec["image"], entrypoint=spec["command"], command=[], labels={LABEL: owner(os.getpid())},
        user=f"{security['runAsUser']}:{security['runAsGroup']}", group_add=[security["fsGroup"]],
        network=rig.network, volumes=mounts, tmpfs=temporary,
        read_only=spec["securityContext"]["readOnlyRootFilesystem"],
        cap_drop=spec["securityContext"]["capabilities"]["drop"],
        security_opt=["no-new-privileges:true"],
        # Docker opens low ports to everybody by itself; Kubernetes before containerd 2.0 does not.
        sysctls={"net.ipv4.ip_unprivileged_port_start": "1024"}
        | {one["name"]: one["value"] for one in security.get("sysctls", ())},
    )  # fmt: skip
    try:
        container.start()
        container.reload()
        address = container.attrs["NetworkSettings"]["Networks"][rig.network]["IPAddress"]
        yield Pod(container, address, spec)
    finally:
        container.remove(force=True)


def project(volume: Object, held: Mapping[str, Object], folder: Path, group: int) -> None:
    """Lay files out as the kubelet does: links to links to files that are root's and the group's."""
    data = folder / "..2026_01_01"
    folder.mkdir(mode=0o755)
    for source in volume["sources"]:
        for kind, reference in source.items():
            one = held[kind]
            assert one["metadata"]["name"] == reference["name"]
            for item in reference["items"]:
                path = data / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text_of(one, item["key"]))
                path.chmod(volume["defaultMode"])
                os.chown(path, 0, group)
    (folder / "..data").symlink_to(data.name)
    for entry in data.iterdir():
        (folder / entry.name).symlink_to(f"..data/{entry.name}")


def text_of(holder: Object, key: str) -> str:
    """Return one file of a ConfigMap, of a Secret as lbgen writes it, or as kustomize does."""
    if holder["kind"] == "Secret" and "stringData" not in holder:
        return base64.b64decode(holder["data"][key]).decode()
    return str(holder["stringData" if holder["kind"] == "Secret" else "data"][key])
