"""Which program a file is for, folders, and several files as one configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.problems import LbgenError
from lbgen.readers.files import kind_of, read_configurations

FRAGMENT = "upstream gpus { server gpu-0:8000; }\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("events {}\n", "nginx"),
        ("proxy_set_header Host $host;\n", "nginx"),
        ("  frontend a\n  bind :80\n", "haproxy"),
        ("# server;\n.if 1\nbackend b from c\n.endif\n", "haproxy"),
        ("http {\n  server_name a;\n  cache foo;\n  upstream x {\n    zone z 1m;\n }\n}\n", "nginx"),
        ("pools:\n  chat: {servers: [a:1]}\n", ""),
        ("", ""),
    ],
)
def test_kinds_are_told_from_the_text(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_what_debian_ships_is_told_apart() -> None:
    for name, kind in (("/etc/nginx/nginx.conf", "nginx"), ("/etc/haproxy/haproxy.cfg", "haproxy")):
        if Path(name).is_file():
            assert kind_of(Path(name).read_text()) == kind


def test_fragments_are_one_configuration_and_includes_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(FRAGMENT)
    (tmp_path / "b.conf").write_text("server { location / { proxy_pass http://gpus; } }\n")
    (tmp_path / "nginx.conf").write_text("events {}\nhttp { include c.conf; }\n")
    (tmp_path / "c.conf").write_text("server { listen 80; }\n")
    names = [str(tmp_path / name) for name in ("a.conf", "b.conf", "nginx.conf", "c.conf")]
    whole, parts = read_configurations(names).nginx
    assert list(whole.texts) == [names[2], names[3]]
    assert [one.name for one in parts.root.block or ()] == ["upstream", "server"]


def test_a_folder_is_its_main_file_or_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "z.cfg").write_text("backend b\n")
    (tmp_path / "a.cfg").write_text("defaults\n mode http\n")
    (tmp_path / "notes.txt").write_text("global\n")
    found = read_configurations([str(tmp_path)]).haproxy
    assert found is not None
    assert [section.title for section in found.sections] == ["defaults", "backend b"]
    (tmp_path / "haproxy.cfg").write_text("global\n")
    found = read_configurations([str(tmp_path)]).haproxy
    assert found is not None
    assert [section.title for section in found.sections] == ["global"]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LbgenError, match=r"gone\.conf: cannot be read"):
        read_configurations([str(tmp_path / "gone.conf")])
    with pytest.raises(LbgenError, match=r"holds no nginx\.conf"):
        read_configurations([str(tmp_path)])
    (tmp_path / "x.yaml").write_text("pools: {}\n")
    assert read_configurations([str(tmp_path / "x.yaml")]).others == (str(tmp_path / "x.yaml"),)
