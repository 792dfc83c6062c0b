"""Which files a running HAProxy is in step with, after changes over its runtime socket.

Its live probe goes on naming the files that it was loaded with. What it was changed to since is noted
beside the files, so that nobody takes a change that was never loaded for one that runs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lbgen.files import replace_note
from lbgen.reading import read_text

if TYPE_CHECKING:
    from pathlib import Path

RECORD = ".lbgen-in-step.json"


def names_for(directory: Path, files: str) -> frozenset[str]:
    """Return what the live probe of a balancer that runs these files may name."""
    try:
        note = json.loads(read_text(directory / RECORD))
        loaded = {str(note["loaded"])} if note["files"] == files else set()
    except (OSError, ValueError, TypeError, KeyError):
        loaded = set()
    return frozenset({files, *loaded})


def changed(directory: Path, old: str, new: str) -> None:
    """Note that what ran the old files runs the new ones now, without having loaded them."""
    loaded = min(names_for(directory, old) - {old}, default=old)
    replace_note(directory / RECORD, json.dumps({"loaded": loaded, "files": new}))


def loaded(directory: Path) -> None:
    """Note that the files were loaded: the live probe names them itself."""
    (directory / RECORD).unlink(missing_ok=True)
