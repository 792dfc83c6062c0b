"""Kubernetes: the files in a ConfigMap and a Secret, a Deployment that runs them, a Service.

Names of ConfigMap and Secret end in a hash of what they hold, and the Deployment names them: another
content is another pod template, so that pods are replaced one by one, and ``kubectl rollout undo`` brings
the old content back. That is kustomize's own way too.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from lbgen.manifests.inside import inside
from lbgen.manifests.order import Made
from lbgen.manifests.probes import live, ready
from lbgen.manifests.yaml_text import documents
from lbgen.problems import LbgenError
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from lbgen.manifests.inside import Inside
    from lbgen.manifests.order import Order, Settle
    from lbgen.manifests.probes import Probe
    from lbgen.targets.program import Program

Object = dict[str, Any]

MOST_BYTES = 1_048_576
"""What a ConfigMap holds. https://kubernetes.io/docs/concepts/configuration/configmap/"""
SPREAD_S = 10
"""Seconds until every node knows that a pod takes no new connections."""
SPARE_S = 15
"""Seconds between the last stream's end and the kill."""
KEYS_FILE = "secrets/kubernetes.yaml"
"""Where the Secret stands, beside the other objects."""
NAME_LENGTH = 40
"""Leaves room in 63 characters for what Kubernetes and the hash add."""


def configmap(order: Order) -> Made:
    """Return plain manifests: one file, and one for the keys beside it where there are any."""
    settle = _from_manifest(order.settle) if order.settle else None
    placed = inside(order._replace(settle=settle), own_addresses=False)
    plain, secret = _contents(placed)
    name = name_of(order)
    config = _holder("ConfigMap", name, order, plain)
    keys = _holder("Secret", name, order, secret) if secret else None
    names = [one["metadata"]["name"] for one in (config, keys) if one is not None]
    text = documents(order.header, config, _deployment(order, placed, names), _service(order, placed))
    files = [RenderedFile("kubernetes.yaml", text)]
    if keys is not None:
        files.append(RenderedFile(KEYS_FILE, documents(order.header, keys), secret=True))
    return Made(tuple(files), _notes(placed))


def kustomize(order: Order) -> Made:
    """Return a folder for ``kubectl apply -k``, with the files as they are and generators over them."""
    placed = inside(order, own_addresses=False)
    secret = _contents(placed)[1]
    name = name_of(order)
    folder: Object = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["deployment.yaml", "service.yaml"],
        "configMapGenerator": [_generator(placed, name, secret=False)],
    }
    if secret:
        folder["secretGenerator"] = [_generator(placed, name, secret=True)]
    folder["generatorOptions"] = {"labels": _labels(order)}
    deployment = _deployment(order, placed, [name, name][: 1 + bool(secret)])
    parts = {
        "kustomization.yaml": folder,
        "deployment.yaml": deployment,
        "service.yaml": _service(order, placed),
    }
    made = [RenderedFile(path, documents(order.header, value)) for path, value in parts.items()]
    return Made((*made, *placed.files), _notes(placed))


def _from_manifest(settle: Settle) -> Settle:
    """Return what settles a file with keys by the Secret that the manifest on disk holds."""

    def settled(file: RenderedFile) -> RenderedFile:
        if not file.secret:
            return file
        old = settle(RenderedFile(KEYS_FILE, "\n", secret=True))
        try:
            text = yaml.safe_load(old.text if old else "")["stringData"][_key(file.path)]
        except (yaml.YAMLError, LookupError, TypeError):
            return file  # nothing is there, or nothing of ours
        header, newline, _ = file.text.partition("\n")
        return file._replace(text=header + newline + str(text).partition("\n")[2])

    return settled


def name_of(order: Order) -> str:
    """Return what all objects are called: the fleet's name as Kubernetes allows it, and the target's."""
    words = re.sub(r"[^a-z0-9]+", "-", order.fleet.name.lower()).strip("-")
    first = words if words[:1].isalpha() else f"lb-{words}"
    return f"{first[:NAME_LENGTH].rstrip('-')}-{order.target}"


def _contents(placed: Inside) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files by key, those without keys of clients and those with; raises `LbgenError`."""
    plain = {_key(file.path): file.text for file in placed.files if not file.secret}
    secret = {_key(file.path): file.text for file in placed.files if file.secret}
    for kind, data in (("ConfigMap", plain), ("Secret", secret)):
        size = sum(len(text.encode("utf-8", "surrogateescape")) for text in data.values())
        if size > MOST_BYTES:
            raise LbgenError(f"the files are {size} bytes, and a {kind} holds {MOST_BYTES}")
    return plain, secret


def _key(path: str) -> str:
    return path.replace("/", "-")


def _holder(kind: str, name: str, order: Order, data: dict[str, str]) -> Object:
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode("utf-8")).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": f"{name}-{digest}", "labels": _labels(order)},
        "immutable": True,
        "data" if kind == "ConfigMap" else "stringData": data,
    }


def _generator(placed: Inside, name: str, *, secret: bool) -> Object:
    paths = [file.path for file in placed.files if file.secret is secret]
    return {"name": name, "files": [f"{_key(path)}={path}" for path in paths]}


def _deployment(order: Order, placed: Inside, holders: list[str]) -> Object:
    name = name_of(order)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _labels(order)},
        "spec": {
            "replicas": order.fleet.balancers.instances,
            "selector": {"matchLabels": _selector(order)},
            # A new pod is ready before an old one goes.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": _labels(order)}, "spec": _pod(order, placed, holders)},
        },
    }


def _pod(order: Order, placed: Inside, holders: list[str]) -> Object:
    user = order.program.user
    security: Object = {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if placed.privileged is not None:
        # A safe sysctl since Kubernetes 1.22; before that the kubelet has to allow it.
        value = str(placed.privileged)
        security["sysctls"] = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": value}]
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": -(-order.settings.drain_timeout // 1000) + SPREAD_S + SPARE_S,
        "securityContext": security,
        "containers": [_container(order, placed)],
        "volumes": [_files_volume(placed, holders), *_writable_volumes(placed)],
    }


def _container(order: Order, placed: Inside) -> Object:
    directory = order.settings.directory
    mounts: list[Object] = [{"name": "config", "mountPath": directory, "readOnly": True}]
    mounts += [
        {"name": f"writable-{number}", "mountPath": folder}
        for number, folder in enumerate(("/tmp", *placed.writable))  # noqa: S108 - the container's
    ]
    return {
        "name": order.target,
        "image": order.image_name,
        "command": order.program.in_container(directory),
        "ports": [{"name": port_name(port), "containerPort": port} for port in _ports(placed)],
        "livenessProbe": _probe(live(order.fleet), timeout_s=2),
        # NGINX asks a server of each pool for it, and waits for up to five seconds.
        "readinessProbe": _probe(ready(order.fleet), timeout_s=6),
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", stopping(order.program)]}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def stopping(program: Program) -> str:
    """Return the shell line that lets streams finish, whatever signal the image is stopped by."""
    return f"sleep {SPREAD_S}; kill -{program.stop_signal} 1; while kill -0 1 2>/dev/null; do sleep 1; done"


def _files_volume(placed: Inside, holders: list[str]) -> Object:
    sources = []
    for kind, holder, secret in zip(("configMap", "secret"), holders, (False, True), strict=False):
        items = [
            {"key": _key(file.path), "path": file.path} for file in placed.files if file.secret is secret
        ]
        sources.append({kind: {"name": holder, "items": items}})
    return {"name": "config", "projected": {"defaultMode": 0o440, "sources": sources}}


def _writable_volumes(placed: Inside) -> list[Object]:
    return [{"name": f"writable-{number}", "emptyDir": {}} for number in range(1 + len(placed.writable))]


def _probe(probe: Probe, timeout_s: int) -> Object:
    how: Object = {"tcpSocket": {"port": probe.port}}
    if probe.path is not None:
        get: Object = {"path": probe.path, "port": probe.port, "scheme": "HTTPS" if probe.tls else "HTTP"}
        if probe.host:
            get["httpHeaders"] = [{"name": "Host", "value": probe.host}]
        how = {"httpGet": get}
    return {**how, "periodSeconds": 10, "timeoutSeconds": timeout_s, "failureThreshold": 3}


def _service(order: Order, placed: Inside) -> Object:
    ports = [
        {"name": port_name(port), "port": port, "targetPort": port_name(port), "protocol": "TCP"}
        for port in _ports(placed)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name_of(order), "labels": _labels(order)},
        "spec": {"type": "ClusterIP", "selector": _selector(order), "ports": ports},
    }


def _ports(placed: Inside) -> list[int]:
    return list(dict.fromkeys(one.port for one in placed.published))


def port_name(port: int) -> str:
    """Return what a port is called: at most 15 characters, one of them a letter."""
    return f"tcp-{port}"


def _selector(order: Order) -> dict[str, str]:
    return {"app.kubernetes.io/name": order.target, "app.kubernetes.io/instance": name_of(order)}


def _labels(order: Order) -> dict[str, str]:
    return {**_selector(order), "app.kubernetes.io/managed-by": "lbgen"}


def _notes(placed: Inside) -> tuple[str, ...]:
    if not placed.foreign:
        return placed.notes
    named = ", ".join(placed.foreign)
    return (*placed.notes, f"the manifests hold no {named}: mount them from a Secret of yours")
