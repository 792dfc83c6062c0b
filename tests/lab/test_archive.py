"""Files for containers: with the folders that an image may lack, for every user."""

import io
import tarfile

from lbgen.lab.archive import pack


def test_folders_are_there_and_can_be_entered() -> None:
    with tarfile.open(
        fileobj=io.BytesIO(pack({"/etc/haproxy/secrets/a.pem": b"x"}, ["/tmp/free"]))
    ) as archive:
        entries = [(one.name, one.isdir(), one.mode) for one in archive.getmembers()]
    assert entries == [
        ("etc/haproxy", True, 0o755),
        ("etc/haproxy/secrets", True, 0o755),
        ("tmp/free", True, 0o777),
        ("etc/haproxy/secrets/a.pem", False, 0o644),
    ]


def test_folders_at_the_root_keep_what_they_are() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack({"/tmp/a": "x"}))) as archive:
        assert archive.getnames() == ["tmp/a"]
