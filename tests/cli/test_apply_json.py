"""What ``apply --format json`` says for each of its ends."""

from __future__ import annotations

import json

import pytest

FLEET = """\
pools: {chat: {servers: [gpu-0:8000, gpu-1:8000]}}
listeners: {public: {bind: "127.0.0.1:1"}}
targets: {nginx: {}}
"""
CHANGED = ["--set", "pools.chat.strategy=round_robin"]


@pytest.fixture
def applied(lbgen, tmp_path):
    """A function that applies a fleet to files that are there already, and reads what is said."""
    (tmp_path / "fleet.yaml").write_text(FLEET)
    assert lbgen("render", "fleet.yaml", "-o", "out").code == 0

    def call(*words: str):
        ended = lbgen("apply", "fleet.yaml", "--to", "out/nginx", "--binary=none", "--format=json", *words)
        return ended.code, json.loads(ended.out)

    return call


def test_nothing_to_do(applied):
    code, said = applied()
    assert (code, said["outcome"], said["changes"]) == (0, "unchanged", [])


def test_a_change(applied):
    code, said = applied(*CHANGED)
    assert (code, said["outcome"], said["target"]) == (0, "applied", "nginx")
    assert [one["after"] for one in said["changes"]] == ["round_robin"]


def test_without_a_reload_it_is_not_in_effect(applied, lbgen):
    assert applied("--set", "pools.chat.strategy=random_two")[1]["in_effect"] is False
    ended = lbgen("apply", "fleet.yaml", "--to", "out/nginx", "--binary=none", *CHANGED)
    assert ended.code == 0
    assert "take effect when nginx is reloaded" in ended.err.splitlines()[-1]


def test_a_refusal(applied):
    code, said = applied(*CHANGED, "--expect", "0" * 16)
    assert (code, said["outcome"]) == (1, "refused")
    assert said["message"]


def test_a_failure(applied):
    code, said = applied(*CHANGED, "--reload", "false")
    assert (code, said["outcome"]) == (2, "failed")
    assert "rolled back" in said["message"]
