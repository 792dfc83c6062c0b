"""The files as they were before the last apply, and whether that one came to its end.

An apply that was killed leaves its mark. The next one then keeps this backup: what it finds in the
folder may be half of the change, and what ran well before is here.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from typing import TYPE_CHECKING

from lbgen.files import NEW, copy_whole, replace_note
from lbgen.problems import LbgenError
from lbgen.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lbgen.files import Change

BACKUP = ".lbgen-backup"
MARK = "unfinished.json"


class Backup:
    """One folder's backup; `main` is the main file's path in it."""

    def __init__(self, directory: Path, main: str) -> None:
        self._directory = directory
        self._main = main
        self._folder = directory / BACKUP
        self._files = self._folder / "files"
        self._mark = self._folder / MARK

    @property
    def unfinished(self) -> bool:
        """True while an apply is under way, and after one that was killed; False to who may not look."""
        try:
            return self._mark.exists()
        except PermissionError:  # a plan by another user than root
            return False

    def take(self, changes: Iterable[Change]) -> None:
        """Keep the files that are about to change, and mark that an apply is under way.

        Raises `LbgenError` when the backup cannot be written; then nothing else may be touched.
        """
        try:
            self._take(changes)
        except OSError as error:
            raise LbgenError(f"{self._folder}: no backup can be made: {error.strerror}") from None

    def restore(self) -> bool:
        """Put all files back as they were; return whether there was a main file. The mark stays.

        What the main file names comes before it, and what it did not name goes last.
        """
        kept = sorted(self._kept(), key=lambda name: name == self._main)
        for name in kept:
            place = (self._directory / name).resolve()
            if not place.exists() or place.read_bytes() != (self._files / name).read_bytes():
                place.parent.mkdir(parents=True, exist_ok=True)
                _move(self._files / name, place)
        for name in self._absent():
            (self._directory / name).unlink(missing_ok=True)
        return self._main not in self._absent()

    def finish(self) -> None:
        """Note that the apply came to its end; the backup stays."""
        self._mark.unlink(missing_ok=True)

    def _take(self, changes: Iterable[Change]) -> None:
        self._expect_own()
        absent = self._absent()
        if not self.unfinished:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._files.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        for change in changes:
            name = str(change.path.relative_to(self._directory))
            if change.kind == "same" or name in absent or (self._files / name).exists():
                continue
            if change.kind == "new":
                absent.append(name)
            else:
                (self._files / name).parent.mkdir(parents=True, exist_ok=True)
                copy_whole(change.path, self._files / name)
        replace_note(self._mark, json.dumps(absent))

    def _expect_own(self) -> None:
        """Raise `LbgenError` for a folder that others prepared: its files would be put in place of ours."""
        if self._folder.is_symlink():
            raise LbgenError(f"{self._folder}: a symbolic link; no backup is written there")
        if self._folder.exists() and self._folder.stat().st_uid not in {0, os.geteuid()}:
            raise LbgenError(f"{self._folder}: owned by another user: remove it")

    def _absent(self) -> list[str]:
        """Return the files that were not there before the apply that is under way."""
        if not self.unfinished:
            return []
        try:
            names = json.loads(read_text(self._mark))
        except ValueError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise LbgenError(f"{self._mark}: not written by lbgen: remove it when the balancer works")
        return names

    def _kept(self) -> Iterator[str]:
        for path in self._files.rglob("*"):
            if path.is_file() and not path.name.startswith(NEW):
                yield str(path.relative_to(self._files))


def _move(source: Path, place: Path) -> None:
    """Move a file to where it belongs, which a full disk allows; a link may lead to another file system."""
    try:
        source.replace(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy_whole(source, place)
