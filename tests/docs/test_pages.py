"""Each block of the tutorial, the how-tos and the README does what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from lbgen.cli.guard import run
from tests.docs.blocks import Block, blocks, fits
from tests.docs.shell import complaints, missing, run_page

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "tutorial.md",
    DOCS / "reference" / "json.md",
    *sorted((DOCS / "howto").glob("*.md")),
]
FLEETS = [
    pytest.param(block, id=f"{page.name}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "yaml" and "\npools:" in f"\n{block.text}" and block.note != "overlay"
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples and the pictures, as in a clone."""
    place = tmp_path / "page"
    place.mkdir()
    for name in ("examples", "docs/images"):
        shutil.copytree(ROOT / name, place / name)
    return place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_do_what_the_page_says(page: Path, folder: Path) -> None:
    found = blocks(page)
    assert any(block.runs for block in found)
    if lacking := missing():
        pytest.skip(f"{', '.join(lacking)}: not found, and the pages run them")
    assert complaints(run_page(found, folder)) == []


@pytest.mark.parametrize("fleet", FLEETS)
def test_each_fleet_passes_the_check(fleet: Block, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet.text, encoding="utf-8")
    assert run(["check", str(path)]) == fleet.code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_not_run_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml" and block.note != "overlay":
            list(yaml.safe_load_all(block.text))
        elif block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_are_named_for_readers_who_see_no_titles(page: Path) -> None:
    for block in blocks(page):
        assert not block.title or f"`{block.title}`" in block.before, f"line {block.line}"


def test_dots_stand_for_anything() -> None:
    assert fits("digest 12ab\n", "digest ...\n")
    assert fits("a\nb\nc\n", "a\n...\nc\n")
    assert fits("a\nc\n", "a\n...\nc\n")
    assert not fits("digest 12ab\nmore\n", "digest\n")
    assert not fits("a\nb\n", "a\n...\nc\n")


def test_a_command_that_fails_ends_its_page(tmp_path: Path) -> None:
    if lacking := missing():
        pytest.skip(f"{', '.join(lacking)}: not found, and the pages run them")
    page = tmp_path / "page.md"
    page.write_text("```sh\necho a; false\necho b\n```\n\n```sh\necho c\n```\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    first, second = run_page(blocks(page), folder)
    assert (first.code, first.said) == (1, "a\n")
    assert second.code == -1
    assert len(complaints([first, second])) == 2
