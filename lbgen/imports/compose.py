"""Compose files: which service is a balancer, where its configuration is, and what the others run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.imports.draft import Said
from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.fleet.text.source import Document
    from lbgen.imports.draft import Draft

_BALANCERS = {
    "nginx": re.compile(r"(?:^|/)(?:nginx|nginx-unprivileged|openresty)(?::|@|$)"),
    "haproxy": re.compile(r"(?:^|/)haproxy(?:-[a-z0-9.]+)?(?::|@|$)"),
}
_FOLDERS = ("/etc/nginx", "/usr/local/openresty/nginx/conf", "/etc/haproxy", "/usr/local/etc/haproxy")
_ENGINES = {
    "vllm": "vllm-openai",
    "sglang": "lmsysorg/sglang",
    "tgi": "text-generation-inference",
    "tei": "text-embeddings-inference",
    "ollama": "ollama/ollama",
    "llamacpp": "llama.cpp",
    "litellm": "litellm",
    "triton": "tritonserver",
}
"""By engine, a part of the names of images that run it."""


class Compose(NamedTuple):
    """What a Compose file says of balancers and servers."""

    configurations: tuple[str, ...]
    """Files of this machine that a balancer has mounted."""
    texts: tuple[tuple[str, str], ...]
    """What stands in the file itself (``content``), by the file's name: its lines, at their place."""
    versions: Mapping[str, str]
    """By target, the version that the tags of its images name, where it is one alone."""
    engines: Mapping[str, str]
    """By service, what its image runs."""


def read_compose(name: str, text: str, document: Document) -> Compose:
    """Return what a Compose file says; raises `LbgenError` where no balancer has a configuration in it."""
    folder = Path(name).parent
    whole = document.plain()
    services, configs = (_mapping(whole.get(key)) for key in ("services", "configs"))
    files: list[str] = []
    inside: list[tuple[str, str]] = []
    versions: dict[str, set[str]] = {}
    engines: dict[str, str] = {}
    for service, said in services.items():
        values = _mapping(said)
        image = str(values.get("image", ""))
        target = next((one for one, pattern in _BALANCERS.items() if pattern.search(image)), None)
        if target is not None:
            files += _mounted(folder, values, configs)
            inside += [(name, _content(text, document, one)) for one in _written(values, configs)]
            version = re.search(r":v?(\d+\.\d+(?:\.\d+)?)", image)
            versions.setdefault(target, set()).add(version[1] if version else "")
        found = next((engine for engine, part in _ENGINES.items() if part in image), None)
        if found is not None:
            engines[service] = found
    if not files and not inside:
        raise LbgenError(
            f"{name}: no service with an image of NGINX or HAProxy has its configuration mounted"
        )
    agreed = {target: one for target, said in versions.items() if len(said) == 1 for one in said if one}
    return Compose(tuple(dict.fromkeys(files)), tuple(dict.fromkeys(inside)), agreed, engines)


def _mapping(said: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever YAML says
    return said if isinstance(said, dict) else {}


def _list(said: Any) -> list[Any]:  # noqa: ANN401 - whatever YAML says
    return said if isinstance(said, list) else []


def _written(service: Mapping[str, Any], configs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of configurations that stand in the Compose file itself."""
    for name, target, said in _used(service, configs):
        if target.startswith(_FOLDERS) and _is_configuration(target) and isinstance(said.get("content"), str):
            yield name


def _content(text: str, document: Document, name: str) -> str:
    """Return the lines of a ``content`` where they stand, without the rest; Compose's ``$$`` is ``$``."""
    node: Any = document.node(("configs", name, "content"))
    first, last = node.start_mark.line, node.end_mark.line
    value: str = node.value.replace("$$", "$")
    if node.style != "|":
        return str("\n" * first + value)
    lines = text.splitlines()[first + 1 : max(last, first + 1)]
    return str("\n" * (first + 1) + "\n".join(lines).replace("$$", "$") + "\n")


def _used(
    service: Mapping[str, Any], configs: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the ``configs`` of a service: name, target, what the Compose file says of it."""
    for one in _list(service.get("configs")):
        if not isinstance(one, str | dict):
            continue
        name = one if isinstance(one, str) else str(one.get("source", ""))
        target = f"/{name}" if isinstance(one, str) else str(one.get("target", f"/{name}"))
        said = configs.get(name)
        if isinstance(said, dict):
            yield name, target, said


def _mounted(folder: Path, service: Mapping[str, Any], configs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that are mounted where a balancer looks for its configuration."""
    for source, target in (*_volumes(service), *_configs(service, configs)):
        if not target.startswith(_FOLDERS):
            continue
        path = folder / source
        if path.is_dir():
            yield from sorted(str(one) for one in path.rglob("*") if _is_configuration(one.name))
        elif _is_configuration(target):
            yield str(path)


def _is_configuration(name: str) -> bool:
    return name.endswith((".conf", ".cfg", ".conf.template"))


def _volumes(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in _list(service.get("volumes")):
        if isinstance(one, str) and one.count(":"):
            source, target = one.split(":")[:2]
            yield source, target
        elif isinstance(one, dict) and one.get("type", "bind") == "bind":
            yield str(one.get("source", "")), str(one.get("target", ""))


def _configs(service: Mapping[str, Any], configs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for _, target, said in _used(service, configs):
        if "file" in said:
            yield str(said["file"]), target


def add_engines(draft: Draft, compose: Compose) -> None:
    """Name the engine of each pool all of whose servers run it, and the targets' versions."""
    for tree in draft.pools.values():
        hosts = [_host(said.value) for said in tree.get("servers", ())]
        found = {compose.engines.get(host) for host in hosts}
        engine = found.pop() if len(found) == 1 else None
        if engine is not None:
            tree["engine"] = Said(engine, beside=f"the image of the service {hosts[0]}")
    for target, version in compose.versions.items():
        if target in draft.targets:
            short = ".".join(version.split(".")[:2])
            draft.targets[target] = {"version": Said(short), **draft.targets[target]}


def _host(server: Any) -> str:  # noqa: ANN401 - an address or a mapping
    address = server["address"] if isinstance(server, dict) else server
    return str(address).rpartition(":")[0]
