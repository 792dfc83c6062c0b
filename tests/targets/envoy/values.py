"""Envoy's files read as YAML, by key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.targets.loaded import files

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "1.36"
POOLS: dict[str, Any] = {"chat": {"engine": "vllm", "servers": ["10.0.0.1:8000"]}}


def values(fleet: dict[str, Any], key: str) -> list[Any]:
    """Return all that stands under a key, in any of the files."""
    made = files(json.dumps({"pools": POOLS, **fleet}), "envoy", VERSION)
    documents = (one for name, text in made.items() if name != "lbgen-fleet.yaml" and name.endswith(".yaml")
                 for one in yaml.safe_load_all(text))  # fmt: skip
    return [found for document in documents for found in _under(document, key)]


def _under(node: Any, key: str) -> Iterator[Any]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from _under(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _under(value, key)


def listener(**keys: Any) -> dict[str, Any]:
    return {"listeners": {"l": {"bind": "8443", **keys}}}


def pool(**keys: Any) -> dict[str, Any]:
    return {"pools": {"chat": {**POOLS["chat"], **keys}}}
