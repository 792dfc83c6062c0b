"""Putting rendered files on disk: each whole or not at all, and never over somebody else's."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.reading import read_text, readable
from lbgen.render import HEADER_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from lbgen.render import RenderedFile
    from lbgen.secret_values import RealSecrets, StandInSecrets


NEW = ".lbgen-new-"
"""What the names of temporary files begin with."""
SIDE_FOLDERS = ("secrets", "secrets/routes", "systemd", "endpoints", "routes")
"""Below a target's folder, what holds rendered files."""


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
    (`LbgenError`), unless `force` is true. Mode and owner of replaced files are kept, but
    for those that hold secrets: they are the caller's alone.
    """
    changes = compare(directory, files)
    if not force:
        refuse_foreign(changes)
    refuse_strangers(changes)
    try:
        _carry_out(changes)
    except OSError as error:
        raise LbgenError(f"{error.filename or directory}: cannot be written: {error.strerror}") from None
    return changes


def known_secrets(
    directory: Path, secrets: RealSecrets | StandInSecrets
) -> Callable[[RenderedFile], RenderedFile | None]:
    """Return what `render` settles files with where secrets are not to be had: as they lie in the directory.

    So a change is told from the rest of the fleet, on a machine without the keys, too. A file that is made
    of others which are elsewhere is left out where there is none.
    """
    secrets.look_in(directory)

    def settle(file: RenderedFile) -> RenderedFile | None:
        place = directory / file.path
        left_out = file.path in secrets.left_out
        if not (left_out or (file.secret and secrets.missing)):
            return file
        if not place.exists():
            return None if left_out else file
        header, newline, _ = file.text.partition("\n")
        return file._replace(text=header + newline + _read(place).partition("\n")[2])

    return settle


def refuse_foreign(changes: Iterable[Change]) -> None:
    """Raise `LbgenError` when a file in the way was not written by lbgen."""
    foreign = [str(change.path) for change in changes if change.kind == "foreign"]
    if foreign:
        raise LbgenError(f"{', '.join(foreign)}: not written by lbgen, not replaced (--force replaces it)")


def refuse_strangers(changes: Iterable[Change]) -> None:
    """Raise `LbgenError` for links that another user laid: they would lead what is written elsewhere."""
    for change in changes:
        for place in (change.path, change.path.parent):
            if place.is_symlink() and not _is_own(place.lstat()):
                raise LbgenError(
                    f"{place}: is a link that belongs to another user: nothing is written through it"
                )


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid in {0, os.geteuid()}


def diff(changes: Iterable[Change]) -> str:
    """Return a unified diff of the changes; of files with secrets only that they differ."""
    return "".join("".join(_diff(change)) for change in changes if change.kind != "same")


def _change(path: Path, file: RenderedFile) -> Change:
    _expect_regular(path)
    if not path.exists():
        return Change("new", path, "", file.text, file.secret)
    old = _read(path)
    if old == file.text and not (file.secret and _is_open(path.stat())):
        return Change("same", path, old, file.text, file.secret)
    kind = "changed" if has_header(old) else "foreign"
    return Change(kind, path, old, file.text, file.secret)


def _is_open(status: os.stat_result) -> bool:
    """Tell whether others than its proper owner may read a file."""
    return bool(status.st_mode & 0o077) or not _is_own(status)


def _expect_regular(path: Path) -> None:
    """Raise `LbgenError` for what only looks like a file: it may block, or lead nowhere."""
    try:
        odd = path.resolve().exists() and not path.is_file()
    except (OSError, RuntimeError):  # links that lead to themselves
        odd = True
    if odd:
        raise LbgenError(f"{path}: is in the way, and is no regular file")


def _read(path: Path) -> str:
    with readable(path):
        return read_text(path, errors="surrogateescape")


def has_header(text: str) -> bool:
    """Tell whether lbgen wrote this text."""
    return HEADER_MARK in text.partition("\n")[0]


def _is_secret(path: Path) -> bool:
    return "secrets" in {path.parent.name, path.parent.parent.name}


def _ours(directory: Path, known: set[Path]) -> Iterator[Path]:
    """Yield files that lbgen wrote into this directory and that are not among the known ones.

    Names that begin with a dot, such as the backup's, are no part of a configuration; nor is what lies in
    other folders, which may be another target's, or in those that links lead to.
    """
    folders = [directory, *(directory / name for name in SIDE_FOLDERS if not (directory / name).is_symlink())]
    for path in [path for folder in folders for path in sorted(folder.glob("*"))]:
        if (
            not path.name.startswith(".")
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


def tidy(directory: Path) -> None:
    """Remove the temporary files of writing that was killed; nobody may be writing there now."""
    for path in [place for depth in ("", "*/", "*/*/") for place in directory.glob(f"{depth}{NEW}*")]:
        path.unlink(missing_ok=True)


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file with its owner and mode; the target is whole at every instant, old or new."""
    with _replacing(target) as stream:
        status = source.stat()
        os.fchmod(stream.fileno(), status.st_mode & 0o7777)
        with suppress(PermissionError):  # who may not give files away keeps them
            os.fchown(stream.fileno(), status.st_uid, status.st_gid)
        stream.write(source.read_bytes())


def _carry_out(changes: Sequence[Change]) -> None:
    """Write what the main file names before the main file, which is first, and remove what it named last.

    Wherever this is stopped, the main file that is there finds its side files.
    """
    for change in [*changes[1:], *changes[:1]]:
        if change.kind not in {"stale", "same"}:
            replace_file(change.path, change.new, secret=change.secret)
    for change in changes:
        if change.kind == "stale":
            change.path.unlink()


def replace_note(path: Path, text: str) -> None:
    """Put a file of lbgen's own use in its place; a link that lies there is replaced, too."""
    with _replacing(path) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def replace_file(path: Path, text: str, *, secret: bool = False) -> None:
    """Put a whole new file in the place of an old one, or of none; at no instant is there half a file."""
    path = path.resolve()  # a link keeps pointing where it points
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if secret else 0o777)
    with _replacing(path) as stream:
        if not secret:
            _adopt(path, stream.fileno())
        stream.write(text.encode("utf-8", "surrogateescape"))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a new file that takes the place of an old one when it is whole and on disk."""
    # Its mode is 0600, and nobody else can have it open: it is made anew.
    descriptor, temporary = tempfile.mkstemp(prefix=f"{NEW}{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
        _settle(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _settle(directory: Path) -> None:
    """Have the new name on disk before the next one: after a power cut, too, the order holds."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _adopt(path: Path, descriptor: int) -> None:
    """Give the new file the owner and mode of the one it replaces; a new one what the umask says."""
    if path.exists():
        status = path.stat()
        os.fchmod(descriptor, status.st_mode & 0o7777)
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    else:
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(descriptor, 0o666 & ~umask)


def body(text: str) -> str:
    """Return a file without its first line, the header, which names the fleet's digest."""
    return text.partition("\n")[2]


def _diff(change: Change) -> Iterator[str]:
    if change.secret:
        header = change.kind == "changed" and body(change.old) == body(change.new)
        why = "its first line alone, which names the fleet's digest" if header else "holds secrets: not shown"
        yield f"{change.path}: {change.kind} ({why})\n"
        return
    from difflib import unified_diff  # noqa: PLC0415 - 3 ms that only --diff needs

    old, new = change.old.splitlines(keepends=True), change.new.splitlines(keepends=True)
    before = "/dev/null" if change.kind == "new" else str(change.path)
    after = "/dev/null" if change.kind == "stale" else str(change.path)
    for line in unified_diff(old, new, before, after):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
