from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["LBGEN_TARGET", "LBGEN_RENDER_TARGET"])
def test_options_have_twins(lbgen, smallest, monkeypatch, name):
    monkeypatch.setenv(name, "haproxy")
    ended = lbgen("render", smallest)
    assert ended.code == 0
    assert "backend" in ended.out


def test_the_option_wins_over_its_twin_and_the_command_over_all(lbgen, smallest, monkeypatch):
    monkeypatch.setenv("LBGEN_TARGET", "haproxy")
    assert "upstream" in lbgen("render", smallest, "-t", "nginx").out
    monkeypatch.setenv("LBGEN_RENDER_TARGET", "nginx")
    assert "upstream" in lbgen("render", smallest).out


def test_twins_of_repeated_options_take_words(lbgen, smallest, monkeypatch, tmp_path):
    monkeypatch.setenv("LBGEN_TARGET", "nginx haproxy")
    monkeypatch.setenv("LBGEN_OUTPUT", str(tmp_path / "out"))
    assert lbgen("render", smallest).code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["haproxy", "nginx"]


def test_an_empty_twin_counts_as_not_set(lbgen, smallest, monkeypatch):
    monkeypatch.setenv("LBGEN_OUTPUT", "")
    assert "upstream" in lbgen("render", smallest, "-t", "nginx").out


def test_a_wrong_twin_is_a_usage_error(lbgen, smallest, monkeypatch):
    monkeypatch.setenv("LBGEN_PART", "most")
    ended = lbgen("render", smallest)
    assert (ended.code, ended.out) == (2, "")
    assert "most" in ended.err
