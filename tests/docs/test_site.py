"""The site can be built, and whatever a page names is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from lbgen.strategies.registry import STRATEGIES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MARKDOWN = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]


class Links(HTMLParser):
    """What a page links to, loads, and offers as places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places.add(found.get("id", ""))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in {"img", "script"} and "src" in found:
            self.loaded.append(found["src"])
        elif tag == "link" and found.get("rel") in {"stylesheet", "icon"}:
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's folder, built as the README says."""
    folder = tmp_path_factory.mktemp("site")
    command = ["mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml"]
    assert " ".join(command) in (ROOT / "README.md").read_text()
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command, "-d", folder],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_each_link_leads_somewhere(site: Path) -> None:
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) >= len(MARKDOWN)
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = place / "index.html" if place.is_dir() else place
            assert place.exists(), f"{path.name}: {link}"
            if parts.fragment and place in pages:
                assert unquote(parts.fragment) in pages[place].places, f"{path.name}: {link}"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        for link in Links(path.read_text()).loaded:
            assert not urlsplit(link).netloc, f"{path.name}: {link}"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.name)
def test_links_lead_somewhere_in_the_repository_too(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not urlsplit(link).scheme and not link.startswith("#"):
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_the_architecture_names_every_floor_and_package() -> None:
    text = (DOCS / "architecture.md").read_text()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (floors,) = [found["layers"] for found in contracts if found["name"].startswith("A floor imports")]
    named = {name for floor in floors for name in re.findall(r"lbgen\.(\w+)", floor)}
    assert [name for name in sorted(named) if f"`{name}`" not in text] == []


def test_the_readme_shows_every_strategy() -> None:
    rows = re.findall(r"^\| `(\w+)`(?: \(default\))? \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(STRATEGIES)
