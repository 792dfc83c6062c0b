"""Pages of the site that live outside the documentation's folder: each has one home."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from lbgen import __version__

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say at the foot of each page which version it describes."""
    config.copyright = f"lbgen {__version__}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, and the style sheet that lies beside this file."""
    for name, place in PAGES.items():
        text = _linked((ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, place, content=text))
    style = Path(__file__).parent / "site.css"
    files.append(File.generated(config, style.name, abs_src_path=str(style)))
    return files


def _linked(text: str) -> str:
    """Return the text with its links as they are from the site's root."""
    text = re.sub(r"(\]\(|src=\")docs/", r"\1", text)
    for name, place in PAGES.items():
        text = text.replace(f"]({name})", f"]({place})")
    return text
