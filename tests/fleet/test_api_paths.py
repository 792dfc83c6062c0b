"""The page of the APIs' paths says what the table says, and targets go by it."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.api_paths import API_PATHS, SOURCES, Carries, prefixes

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNTS = re.compile(r"/v1/(organizations?|projects)/")
"""Whoever runs inference servers has no such accounts."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api-paths.md"
_HEAD = """\
# Paths of the APIs

What of a request tells which server can answer it, where pools are told apart by their models. Other paths
are looked at in the same way: JSON, a form, or the query may name a model anywhere.

This page is made from `lbgen/api_paths.py`; `pytest tests/fleet --update-golden` writes it anew.

| what | what comes of it |
|---|---|
| model in the body, the query or the path | the pool that lists it, else 404 `model_not_found` |
| id of an object that one server keeps | what a route by path says; else 404 `object_of_a_server` |
| nothing | for lists of models and Ollama's own pages, an answer made from the fleet; else 404 `not_found` |
"""


def page() -> str:
    sections = []
    for api, source in SOURCES.items():
        rows = "".join(
            f"| {row.methods} | `{row.path}` | {row.carries.value} |\n" for row in API_PATHS if row.api == api
        )
        head = "| method | path | what it carries |\n|---|---|---|\n"
        sections.append(f"\n## {api}\n\nAs described at <{source}>.\n\n{head}{rows}")
    return _HEAD + "".join(sections)


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "pytest tests/fleet --update-golden writes it anew"


def test_each_path_of_an_api_is_there_once() -> None:
    assert len({(row.api, row.path) for row in API_PATHS}) == len(API_PATHS)
    assert {row.api for row in API_PATHS} == set(SOURCES)


def test_beginnings_of_paths() -> None:
    assert prefixes(Carries.PATH) == ("/v1/models/", "/openai/deployments/")
    kept = prefixes(Carries.OBJECT)
    assert {"/v1/responses/", "/v1/files", "/v1/batches", "/v1/messages/batches"} <= set(kept)
    assert "/v1/responses" not in kept, "it carries a model"


def called(client: str) -> Iterator[str]:
    """Yield the paths that stand in the code of an API's Python client."""
    found = find_spec(client)
    assert found is not None, client
    assert found.origin is not None, client
    for file in Path(found.origin).parent.rglob("*.py"):
        if "resources" in file.parts or client == "ollama":
            yield from re.findall(
                r"""["'](/[a-z][a-z0-9_]+(?:/[^"'?\s]+)?)(?:[?][^"']*)?["']""", file.read_text()
            )


@pytest.mark.parametrize("client", ["openai", "anthropic", "ollama"])
def test_each_path_that_a_client_calls_is_told(client: str) -> None:
    before = "/v1" if client == "openai" else ""
    paths = {path if path.startswith("/v1/") else before + path for path in called(client)}
    known = {row.path.partition("{")[0] for row in API_PATHS if row.carries in {Carries.OBJECT, Carries.PATH}}
    exact = {row.path for row in API_PATHS}
    unknown = [
        path
        for path in sorted(paths)
        if path not in exact
        and not ACCOUNTS.match(f"{path}/")
        and not any(path.startswith(beginning) for beginning in known)
    ]
    assert len(paths) > 10
    assert unknown == []
