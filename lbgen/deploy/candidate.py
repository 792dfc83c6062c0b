"""New files beside the old ones, for the real checker to see before anything is replaced."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lbgen.deploy.backup import BACKUP
from lbgen.files import has_header, tidy, write_files
from lbgen.reading import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.deploy.job import Job

CANDIDATE = ".lbgen-candidate"


def tidy_up(directory: Path) -> None:
    """Remove what an apply that was killed left lying; the lock is ours."""
    candidate = directory / CANDIDATE
    if candidate.is_symlink():
        candidate.unlink()
    shutil.rmtree(candidate, ignore_errors=True)
    for folder in (directory, directory / BACKUP):
        tidy(folder)


def check_candidate(job: Job) -> str:
    """Let the real checker see the new files, beside the old ones and on the same file system."""
    candidate = job.directory / CANDIDATE
    try:
        candidate.mkdir(mode=0o700)
        write_files(candidate, job.files)
        _link_neighbours(job.directory, candidate)
        return job.check(candidate / job.files[0].path)
    finally:
        shutil.rmtree(candidate, ignore_errors=True)


def in_users_words(said: str, main: Path) -> str:
    """Return what a checker says of the candidate with the user's names for files.

    A rendered file is called by its name alone, since its lines are not those of the file that it replaces;
    any other, such as a certificate, by where it is looked for once the files are replaced.
    """
    candidate = main.parent
    for file in sorted(candidate.rglob("*"), key=lambda path: -len(str(path))):
        if file.is_file() and not file.is_symlink() and has_header(read_text(file, errors="replace")):
            said = said.replace(str(file), str(file.relative_to(candidate)))
    return said.replace(str(candidate), str(candidate.parent))


def _link_neighbours(directory: Path, candidate: Path) -> None:
    """Put what lies beside the files, such as certificates, beside the candidate, too."""
    for neighbour in directory.iterdir():
        if not neighbour.name.startswith(".lbgen") and not (candidate / neighbour.name).exists():
            (candidate / neighbour.name).symlink_to(neighbour.resolve())
