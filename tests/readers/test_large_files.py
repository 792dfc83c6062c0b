"""Files that are made to take long, or to print what steers a terminal: an answer soon, with the place."""

from __future__ import annotations

import io
from time import process_time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lbgen.problems import LbgenError
from lbgen.readers.files import kind_of, read_configurations
from lbgen.readers.haproxy import parse_haproxy
from lbgen.readers.haproxy_words import split_words
from lbgen.readers.nginx import parse_nginx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST = 30
"""Seconds of the processor: ten times and more of what is needed."""


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    began = process_time()
    yield
    assert process_time() - began < _MOST


def test_many_comments() -> None:
    config = parse_haproxy([("a.cfg", "global\n" + "# a\n" * 300_000 + "maxconn 1\n")])
    assert len(config.sections[0].lines[0].comments) == 300_000


def test_many_words_and_escapes_on_a_line() -> None:
    assert len(split_words("a " * 200_000)[0]) == 200_000
    assert split_words(r"\ " * 200_000)[0] == (" " * 200_000,)


def test_one_long_word_is_no_configuration() -> None:
    assert not kind_of("a" * 300_000)
    assert kind_of("a" * 300_000 + ";") == "nginx"


def test_includes_that_double(tmp_path: Path) -> None:
    for number in range(30):
        line = f"include {tmp_path}/{number + 1}.conf;\n"
        (tmp_path / f"{number}.conf").write_text(line * 2)
    (tmp_path / "30.conf").write_text("a b;\n")
    config = parse_nginx(str(tmp_path / "0.conf"), (tmp_path / "0.conf").read_text())
    (problem,) = config.problems
    assert problem.code == "configuration-syntax"
    assert problem.message.startswith("includes lead to more than 5000 files")
    assert problem.location is not None
    assert problem.location.file in config.texts


def test_a_long_chain_of_includes(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number}.conf").write_text(f"a {{ include {tmp_path}/{number + 1}.conf; }}\n")
    config = parse_nginx(str(tmp_path / "0.conf"), (tmp_path / "0.conf").read_text())
    (problem,) = config.problems
    assert problem.message == "more than 32 files include each other"
    assert str(problem.location) == f"{tmp_path}/31.conf:1:5"


def test_blocks_in_blocks() -> None:
    config = parse_nginx("a.conf", "a { " * 100_000)
    assert [str(one.location) for one in config.problems] == ["a.conf:1:401"]
    assert config.problems[0].message == "more than 100 blocks stand inside each other"
    assert len(list(config.levels())) == 101
    assert parse_nginx("a.conf", "a { " * 99 + "b c; " + "}" * 99).problems == ()


def test_many_sections_and_conditions() -> None:
    config = parse_haproxy([("a.cfg", "backend a\n" * 40_000)])
    assert len(config.sections) == 40_000
    config = parse_haproxy([("a.cfg", "global\n" + ".if 1\n" * 60_000 + "maxconn 1\n" + ".endif\n" * 60_000)])
    assert [line.words for line in config.sections[0].lines] == [("maxconn", "1")]


def test_standard_input_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 16 * 1024**2
    stream = SimpleNamespace(buffer=io.BytesIO(b"# \n" + b"\n" * most))
    monkeypatch.setattr("lbgen.readers.files.sys.stdin", stream)
    with pytest.raises(LbgenError, match="<stdin>: cannot be read: it is larger than 16 MiB"):
        read_configurations(["-"])
    stream.buffer = io.BytesIO(b"\n" * most)
    assert read_configurations(["-"]).others == ("<stdin>",)


def test_nul_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("events {}\nhttp { include a\0b; }\n")
    (problem,) = read_configurations([str(path)]).nginx[0].problems
    assert (problem.code, str(problem.location)) == ("configuration-syntax", f"{path}:2:17")
    (tmp_path / "b").write_text("a \0;\n")
    path.write_text("http {\n  include b;\n}\n")
    (problem,) = read_configurations([str(path)]).nginx[0].problems
    assert (problem.code, str(problem.location)) == ("configuration-syntax", f"{tmp_path}/b:1:3")
    (problem,) = parse_haproxy([("a.cfg", "backend a\n server a\\x00b 127.0.0.1:80\n")]).problems
    assert (problem.code, str(problem.location)) == ("configuration-syntax", "a.cfg:2:2")
