from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lbgen.files import compare, diff, replace_file, write_files
from lbgen.problems import LbgenError
from lbgen.render import HEADER_MARK, RenderedFile

HEADER = f"# {HEADER_MARK}: test\n"
MAIN = RenderedFile("nginx.conf", HEADER + "main\n")
SECRET = RenderedFile("secrets/keys.map", HEADER + "sk-very-secret\n", secret=True)

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away: run the tests as root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_writes_files_with_the_right_modes(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        changes = write_files(tmp_path / "nginx", [MAIN, SECRET])
    finally:
        os.umask(old)
    assert [change.kind for change in changes] == ["new", "new"]
    assert (tmp_path / "nginx/nginx.conf").read_text() == MAIN.text
    assert mode(tmp_path / "nginx/nginx.conf") == 0o644
    assert mode(tmp_path / "nginx/secrets/keys.map") == 0o600
    assert mode(tmp_path / "nginx/secrets") == 0o700


def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, [MAIN])
    before = (tmp_path / "nginx.conf").stat()
    assert [change.kind for change in write_files(tmp_path, [MAIN])] == ["same"]
    assert (tmp_path / "nginx.conf").stat().st_ino == before.st_ino


def test_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real.conf"
    real.write_text(HEADER)
    real.chmod(0o640)
    (tmp_path / "nginx.conf").symlink_to(real)
    write_files(tmp_path, [MAIN])
    assert (tmp_path / "nginx.conf").is_symlink()
    assert real.read_text() == MAIN.text
    assert mode(real) == 0o640


def test_narrows_the_mode_of_an_open_secret(tmp_path: Path) -> None:
    write_files(tmp_path, [SECRET])
    (tmp_path / SECRET.path).chmod(0o644)
    assert [change.kind for change in write_files(tmp_path, [SECRET])] == ["changed"]
    assert mode(tmp_path / SECRET.path) == 0o600


@as_root
def test_secrets_are_never_written_into_a_file_that_somebody_prepared(tmp_path: Path) -> None:
    place = tmp_path / SECRET.path
    place.parent.mkdir()
    place.write_text(SECRET.text)
    for path in (place, place.parent, tmp_path):
        os.chown(path, NOBODY, NOBODY)
    with place.open() as prepared:
        write_files(tmp_path, [MAIN, SECRET])
        assert "sk-very" in prepared.read(), "his own file"
    status = place.stat()
    assert (status.st_uid, status.st_gid, mode(place)) == (0, 0, 0o600)
    write_files(tmp_path, [MAIN, SECRET._replace(text=HEADER + "sk-other\n")])
    assert (place.stat().st_uid, mode(place)) == (0, 0o600)


@as_root
@pytest.mark.parametrize("name", [MAIN.path, SECRET.path, "secrets"])
def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "theirs").mkdir()
    link = tmp_path / "to" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "theirs" if name == "secrets" else tmp_path / "theirs/file")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(LbgenError, match="is a link that belongs to another user"):
        write_files(tmp_path / "to", [MAIN, SECRET])
    assert list((tmp_path / "theirs").iterdir()) == []


def test_leaves_somebody_elses_file_alone(tmp_path: Path) -> None:
    (tmp_path / "nginx.conf").write_text("# mine\n")
    extra = RenderedFile("a.conf", HEADER)
    with pytest.raises(LbgenError, match="not replaced"):
        write_files(tmp_path, [extra, MAIN])
    assert (tmp_path / "nginx.conf").read_text() == "# mine\n"
    assert not (tmp_path / "a.conf").exists(), "nothing is written when one file cannot be"
    write_files(tmp_path, [MAIN], force=True)
    assert (tmp_path / "nginx.conf").read_text() == MAIN.text


def test_removes_its_own_stale_files_only(tmp_path: Path) -> None:
    write_files(tmp_path, [MAIN, SECRET])
    (tmp_path / "theirs.conf").write_text("x\n")
    write_files(tmp_path, [MAIN])
    assert not (tmp_path / SECRET.path).exists()
    assert (tmp_path / "theirs.conf").exists()


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, [MAIN])

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LbgenError, match="No space left"):
        write_files(tmp_path, [MAIN._replace(text=HEADER + "new\n")])
    assert [path.name for path in tmp_path.iterdir()] == ["nginx.conf"]
    assert (tmp_path / "nginx.conf").read_text() == MAIN.text


def test_diff_shows_lines_and_masks_secrets(tmp_path: Path) -> None:
    write_files(tmp_path, [MAIN, SECRET])
    new = [MAIN._replace(text=HEADER + "other\n"), SECRET._replace(text=HEADER + "sk-other\n")]
    text = diff(compare(tmp_path, new))
    assert "-main\n+other\n" in text
    assert "holds secrets" in text
    assert "sk-" not in text


def test_hidden_files_are_not_taken_for_stale_ones(tmp_path: Path) -> None:
    (tmp_path / ".backup").mkdir()
    (tmp_path / ".backup/nginx.conf").write_text(MAIN.text)
    (tmp_path / ".old.conf").write_text(MAIN.text)
    write_files(tmp_path, [MAIN])
    assert (tmp_path / ".backup/nginx.conf").exists()
    assert (tmp_path / ".old.conf").exists()


def test_what_lies_in_other_folders_is_not_stale(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    others = [tmp_path / "haproxy/haproxy.cfg", tmp_path / "elsewhere/clients.map"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text(MAIN.text)
    (tmp_path / "to").mkdir()
    (tmp_path / "to/secrets").symlink_to(tmp_path / "elsewhere")
    write_files(tmp_path, [MAIN])
    write_files(tmp_path / "to", [MAIN])
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("kind", ["fifo", "loop", "folder"])
def test_what_is_no_file_is_said(tmp_path: Path, kind: str) -> None:
    place = tmp_path / MAIN.path
    {"fifo": os.mkfifo, "loop": lambda path: path.symlink_to(path), "folder": os.mkdir}[kind](place)
    with pytest.raises(LbgenError, match=r"nginx.conf: is in the way, and is no regular file"):
        write_files(tmp_path, [MAIN])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_keeps_the_owner_of_the_file_it_replaces(tmp_path: Path) -> None:
    write_files(tmp_path, [MAIN])
    os.chown(tmp_path / "nginx.conf", 12_345, 23_456)
    write_files(tmp_path, [RenderedFile("nginx.conf", HEADER + "other\n")])
    status = (tmp_path / "nginx.conf").stat()
    assert (status.st_uid, status.st_gid) == (12_345, 23_456)
    assert "other" in (tmp_path / "nginx.conf").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("owner", "group"), [(12_345, 0), (0, 23_456)])
def test_keeps_owner_and_group_each(tmp_path: Path, owner: int, group: int) -> None:
    write_files(tmp_path, [MAIN])
    os.chown(tmp_path / "nginx.conf", owner, group)
    write_files(tmp_path, [RenderedFile("nginx.conf", HEADER + "other\n")])
    status = (tmp_path / "nginx.conf").stat()
    assert (status.st_uid, status.st_gid) == (owner, group)


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    write_files(tmp_path, [MAIN])
    before = descriptors()
    for number in range(3):
        write_files(tmp_path, [RenderedFile("nginx.conf", f"{HEADER}{number}\n")])
    assert descriptors() <= before


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        write_files(tmp_path, [MAIN])
        assert os.umask(0o077) == 0o077, "the umask is as it was"
    finally:
        os.umask(old)
    assert mode(tmp_path / "nginx.conf") == 0o600


@pytest.mark.parametrize(("secret", "bits"), [(False, 0o755), (True, 0o700)])
def test_a_new_folder_is_open_to_others_unless_it_holds_secrets(
    tmp_path: Path, secret: bool, bits: int
) -> None:
    before = os.umask(0o022)
    try:
        replace_file(tmp_path / "new" / "a.conf", "text", secret=secret)
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == bits
