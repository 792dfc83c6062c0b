"""Putting rendered files on disk: each whole or not at all, and never over somebody else's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.render import HEADER_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lbgen.render import RenderedFile


class Change(NamedTuple):
    """What writing would do to one file, or did."""

    kind: str
    """``new``, ``changed``, ``stale`` (ours, no longer rendered), ``same`` or ``foreign`` (not ours)."""
    path: Path
    old: str
    new: str
    secret: bool


def compare(directory: Path, files: Sequence[RenderedFile]) -> list[Change]:
    """Return how the files on disk differ from the rendered ones, in rendered order, stale ones last.

    Raises `LbgenError` for a file that is there and cannot be read.
    """
    changes = [_change(directory / file.path, file) for file in files]
    known = {change.path.resolve() for change in changes}  # links may lead to files beside them
    stale = [Change("stale", path, _read(path), "", _is_secret(path)) for path in _ours(directory, known)]
    return changes + stale


def write_files(directory: Path, files: Sequence[RenderedFile], *, force: bool = False) -> list[Change]:
    """Write the files below a directory, remove our own stale ones, and return what was done.

    Nothing is written when one of the files in the way was not written by lbgen
    (`LbgenError`), unless `force` is true. Mode and owner of replaced files are kept.
    """
    changes = compare(directory, files)
    if not force:
        refuse_foreign(changes)
    try:
        _carry_out(changes)
    except OSError as error:
        raise LbgenError(f"{error.filename or directory}: cannot be written: {error.strerror}") from None
    return changes


def refuse_foreign(changes: Iterable[Change]) -> None:
    """Raise `LbgenError` when a file in the way was not written by lbgen."""
    foreign = [str(change.path) for change in changes if change.kind == "foreign"]
    if foreign:
        raise LbgenError(
            f"{', '.join(foreign)}: not written by lbgen, so it is left alone (--force replaces it)"
        )


def diff(changes: Iterable[Change]) -> str:
    """Return a unified diff of the changes; of files with secrets only that they differ."""
    return "".join("".join(_diff(change)) for change in changes if change.kind != "same")


def _change(path: Path, file: RenderedFile) -> Change:
    if not path.exists():
        return Change("new", path, "", file.text, file.secret)
    old = _read(path)
    if old == file.text and not (file.secret and path.stat().st_mode & 0o077):
        return Change("same", path, old, file.text, file.secret)
    kind = "changed" if _has_header(old) else "foreign"
    return Change(kind, path, old, file.text, file.secret)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise LbgenError(f"{path}: cannot be read: {error.strerror}") from None


def _has_header(text: str) -> bool:
    return HEADER_MARK in text.partition("\n")[0]


def _is_secret(path: Path) -> bool:
    return path.parent.name == "secrets"


def _ours(directory: Path, known: set[Path]) -> Iterator[Path]:
    """Yield files that lbgen wrote below this directory and that are not among the known ones.

    Names that begin with a dot, such as the backup's, are no part of a configuration.
    """
    for path in sorted(directory.glob("*")) + sorted(directory.glob("*/*")):
        if (
            not any(part.startswith(".") for part in path.relative_to(directory).parts)
            and path.resolve() not in known
            and path.is_file()
            and not path.is_symlink()
            and _first_line_is_ours(path)
        ):
            yield path


def _first_line_is_ours(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return HEADER_MARK in stream.readline(300)
    except OSError:
        return False


def _carry_out(changes: Iterable[Change]) -> None:
    for change in changes:
        if change.kind == "stale":
            change.path.unlink()
        elif change.kind != "same":
            _replace(change.path, change.new, secret=change.secret)


def _replace(path: Path, text: str, *, secret: bool) -> None:
    """Put a whole new file in the place of an old one; at no instant is there half a file."""
    path = path.resolve()  # a link keeps pointing where it points
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if secret else 0o777)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            _adopt(path, stream.fileno(), secret=secret)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _adopt(path: Path, descriptor: int, *, secret: bool) -> None:
    """Give the new file the owner and mode of the one it replaces; a new one what the umask says."""
    if path.exists():
        status = path.stat()
        os.fchmod(descriptor, 0o600 if secret else status.st_mode & 0o7777)
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    elif not secret:
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(descriptor, 0o666 & ~umask)


def _diff(change: Change) -> Iterator[str]:
    if change.secret:
        yield f"{change.path}: {change.kind} (holds secrets: not shown)\n"
        return
    from difflib import unified_diff  # noqa: PLC0415 - 3 ms that only --diff needs

    old, new = change.old.splitlines(keepends=True), change.new.splitlines(keepends=True)
    before = "/dev/null" if change.kind == "new" else str(change.path)
    after = "/dev/null" if change.kind == "stale" else str(change.path)
    for line in unified_diff(old, new, before, after):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
