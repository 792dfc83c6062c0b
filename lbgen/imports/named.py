"""What a user names, with what Compose files, folders of them, and LiteLLM's files stand for."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.fleet.text.source import Document, Source, read
from lbgen.imports.compose import Compose, read_compose
from lbgen.problems import LbgenError
from lbgen.readers.files import Configurations, read_configurations
from lbgen.reading import read_text, readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


class Named(NamedTuple):
    """All that was named."""

    found: Configurations
    compose: Compose | None
    """None: no Compose file was named."""
    documents: Mapping[str, Document]
    """LiteLLM's files, by name."""


def read_named(paths: Sequence[str], haproxy_version: str = "") -> Named:
    """Read files and folders; raises `LbgenError` for what cannot be read, or holds nothing to read."""
    plain: list[str] = []
    texts: list[tuple[str, str]] = []
    compose: Compose | None = None
    documents: dict[str, Document] = {}
    for path in paths:
        one, document = _in_folder(path), None
        if one is None and path.endswith((".yml", ".yaml")):
            text, document = _yaml(path)
        whole = document.plain() if document is not None else {}
        if document is not None and isinstance(whole.get("model_list"), list):
            documents[path] = document
            continue
        if document is not None and isinstance(whole.get("services"), dict):
            one = read_compose(path, text, document)
        if one is None:
            plain.append(path)
        else:
            compose = one if compose is None else _both(compose, one)
            plain += one.configurations
            texts += one.texts
    version = haproxy_version or (compose.versions.get("haproxy", "") if compose else "")
    return Named(read_configurations(plain, version, texts), compose, documents)


def _both(one: Compose, other: Compose) -> Compose:
    """Return what two Compose files say; versions where they do not contradict each other."""
    versions = {
        target: version
        for target, version in {**one.versions, **other.versions}.items()
        if {one.versions.get(target, version), other.versions.get(target, version)} == {version}
    }
    return Compose(
        (*one.configurations, *other.configurations),
        (*one.texts, *other.texts),
        versions,
        {**one.engines, **other.engines},
    )


def _in_folder(path: str) -> Compose | None:
    """Return the Compose file of a folder that holds one with a balancer's configuration.

    None where it mounts files that are not here, since they are made elsewhere.
    """
    found = [Path(path) / name for name in _COMPOSE if (Path(path) / name).is_file()] if path != "-" else []
    for name in map(str, found[:1]):
        text, document = _yaml(name)
        with suppress(LbgenError):
            made = read_compose(name, text, document) if document is not None else None
            if made is not None and (made.texts or any(Path(one).exists() for one in made.configurations)):
                return made
    return None


def _yaml(path: str) -> tuple[str, Document | None]:
    with readable(path):
        text = read_text(path, errors="replace")
    root, _ = read(Source(path, text))
    return text, Document(root) if root is not None else None
