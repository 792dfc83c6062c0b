from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lbgen.reading import opened, read_bytes, read_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("é\r\nb\r".encode())
    assert read_text(tmp_path / "a") == "é\nb\n"


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read_bytes(tmp_path / "pipe")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full", "/dev/tty"])
def test_a_device_is_not_read(device: str) -> None:
    with pytest.raises(OSError, match=r"no regular file|No such device"):
        read_bytes(device)


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory"):
        read_bytes(tmp_path)


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(3 * 2**30)
    with pytest.raises(OSError, match="larger than 256 MiB"):
        read_bytes(tmp_path / "large")


def test_a_file_without_a_size_is_read_up_to_its_bound() -> None:
    assert read_bytes("/proc/self/cmdline")
    with pytest.raises(OSError, match="larger than"):
        read_bytes("/proc/self/cmdline", 1)


def test_what_the_shell_hands_over_is_read_where_it_may_be() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"pools: {}")
    os.close(writer)
    with pytest.raises(OSError, match="no regular file"):
        opened(f"/dev/fd/{reader}")
    with opened(f"/dev/fd/{reader}", pipe=True) as stream:
        assert stream.read() == b"pools: {}"
    os.close(reader)
