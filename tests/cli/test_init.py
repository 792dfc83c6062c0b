from __future__ import annotations

import pytest

from lbgen.engines import ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_fleet_is_a_good_one(lbgen, engine):
    ended = lbgen("init", "--engine", engine)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("# yaml-language-server: $schema=")
    checked = lbgen("check", "-", "--binary", "none", stdin=ended.out)
    assert checked.code == 0
    assert "error" not in checked.err
    assert f"engine: {engine}" in lbgen("show", "-", stdin=ended.out).out


def test_the_servers_of_the_first_fleet(lbgen):
    ended = lbgen("init", "--servers", "gpu-[0-1]:9000,[fd00::2]:8000", "--servers", "10.0.0.7:8000")
    rendered = lbgen("render", "-", "-t", "nginx", stdin=ended.out)
    assert rendered.code == 0
    assert lbgen("init", "-o", "-").out == lbgen("init").out
    for address in ("gpu-0:9000", "gpu-1:9000", "[fd00::2]:8000", "10.0.0.7:8000"):
        assert f"server {address}" in rendered.out


def test_a_new_file_is_written_and_an_old_one_is_not(lbgen, tmp_path):
    ended = lbgen("init", "-o", "first.yaml")
    assert (ended.code, ended.out) == (0, "")
    assert "lbgen check first.yaml" in ended.err
    assert lbgen("check", "first.yaml", "--binary", "none").code == 0
    (tmp_path / "first.yaml").write_text("mine")
    ended = lbgen("init", "-o", "first.yaml")
    assert ended.code == 2
    assert (tmp_path / "first.yaml").read_text() == "mine"


def test_a_file_in_no_folder(lbgen):
    assert lbgen("init", "-o", "gone/first.yaml").code == 2
