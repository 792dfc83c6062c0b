"""The drop-in file for systemd: the descriptors that the rendered connections need."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import RenderedFile, render

FLEET = """\
pools: {{chat: {{engine: vllm, servers: "gpu-[0-3]:8000"}}}}
targets: {{{target}: {{{setting}: 30000}}}}
"""
SETTINGS = {"nginx": "connections", "haproxy": "max_connections"}


def rendered(target: str, part: str = "all") -> dict[str, RenderedFile]:
    text = FLEET.format(target=target, setting=SETTINGS[target])
    loaded = load([Source("fleet.yaml", text)], environ={})
    assert loaded.fleet is not None, loaded.problems
    return {file.path: file for file in render(loaded.fleet, target, part)}


def settings_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("target", SETTINGS)
def test_there_is_room_for_both_sides_of_every_connection(target: str) -> None:
    file = rendered(target)["systemd/lbgen.conf"]
    section, limit = settings_of(file.text)
    assert section == "[Service]"
    assert limit.startswith("LimitNOFILE=")
    assert 60_000 <= int(limit.partition("=")[2]) <= 61_000
    assert f"{target}.service" in file.text
    assert not file.secret


@pytest.mark.parametrize("target", SETTINGS)
@pytest.mark.parametrize("part", ["http", "upstreams"])
def test_a_part_leaves_the_service_to_its_owner(target: str, part: str) -> None:
    assert "systemd/lbgen.conf" not in rendered(target, part)
