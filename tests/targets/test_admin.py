"""The regular expression for admin paths, as both targets use it."""

from __future__ import annotations

import re

import pytest

from lbgen.engines import ENGINES
from lbgen.targets.common.paths import admin_regex

PATHS = ("/v1/load_lora_adapter", "/sleep", "/v2/models/*/trace")


def found(path: str, *before: str, added: str = "") -> bool:
    regex = admin_regex(PATHS, before, added)
    return bool(regex and re.search(regex, path, re.IGNORECASE))


@pytest.mark.parametrize(
    "path",
    [
        "/sleep",
        "//sleep",
        "/SLEEP/",
        "/sleep/now",
        "/sleep\n",
        "/sleep?",
        "/v1//load_lora_adapter",
        "/v2/models/m/trace/x",
    ],
)
def test_every_spelling_is_found(path: str) -> None:
    assert found(path)


@pytest.mark.parametrize(
    "path",
    ["/", "/sleepy", "/sleep-2", "/v1/sleep", "/v1", "/v2/models/trace", "/v2/models/a/b/trace", "/x/sleep"],
)
def test_nothing_else_is(path: str) -> None:
    assert not found(path)


@pytest.mark.parametrize(
    ("path", "before", "added", "expected"),
    [
        ("/gpt/sleep", ("/gpt",), "", True),
        ("/sleep", ("/gpt",), "", False),
        ("/b/sleep", ("/a", "/b"), "", True),
        ("/gpt/load_lora_adapter", ("/gpt",), "/v1", True),
        ("/gpt/sleep", ("/gpt",), "/v1", False),
        ("/load_lora_adapter", (), "/V1/", True),
        ("/m/trace", (), "/v2/models", True),
        ("/trace", (), "/v2/models/llama", True),
        ("/gpt/sleep", ("/gpt",), "/api", False),
        ("/sleep", ("/",), "", True),
        ("/sleep", ("/", "/gpt"), "", True),
        ("/gpt/sleep", ("/", "/gpt"), "", True),
        ("/gpt/x", ("/gpt",), "/sleep", True),
        ("/gpt", ("/gpt",), "/sleep/deep", True),
        ("/other", ("/gpt",), "/sleep", False),
        ("/x", (), "/sleep", True),
    ],
)
def test_what_the_route_takes_off_and_puts_on_counts(
    path: str, before: tuple[str, ...], added: str, expected: bool
) -> None:
    assert found(path, *before, added=added) is expected


def test_every_engine_names_paths() -> None:
    for engine in ENGINES.values():
        for path in (*engine.admin.all, *engine.admin.changing):
            assert re.fullmatch(r"(/([A-Za-z0-9_.-]+|\*))+", path), (engine.name, path)
            assert path not in engine.health_paths
