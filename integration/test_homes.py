"""NGINX where no script counts: conversations have homes, by what a map can read or njs of any version."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import renewed
from integration.conversations import NAMES, SHARED, expect_homes_on_all_servers, servers_of
from integration.fleets import PROXIES, Proxy, chat, files
from integration.test_strategies import Running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.lab.boxes import MockBox
    from lbgen.lab.rig import Rig

AGENTS = 32
WITHOUT_COUNTS: list[tuple[Proxy, list[str]]] = [(proxy, []) for proxy in PROXIES if proxy.target == "nginx"]
WITHOUT_COUNTS.append((Proxy("bookworm", "nginx"), ["njs"]))


@pytest.fixture(scope="module", params=WITHOUT_COUNTS, ids=str)
def running(request: pytest.FixtureRequest, running_mocks: list[MockBox], rig: Rig) -> Iterator[Running]:
    proxy, modules = request.param
    fleet = {**chat("prefix"), "targets": {"nginx": {"version": proxy.version, "modules": modules}}}
    renewed(running_mocks)
    with ExitStack() as stack:
        box = rig.balancer("nginx", proxy.image, files(fleet, proxy))
        stack.callback(box.remove)
        yield Running(proxy, box)


def test_agents_with_one_prompt_have_homes_on_all_servers(running: Running) -> None:
    expect_homes_on_all_servers(running, AGENTS)


@pytest.mark.parametrize(("named", "headers"), NAMES)
def test_what_names_a_conversation(running: Running, named: dict[str, Any], headers: dict[str, str]) -> None:
    assert len(servers_of(running, named, headers, 8)) == 1


@pytest.mark.parametrize("key", ["messages", "input"])
def test_a_system_prompt_is_no_conversation(running: Running, key: str) -> None:
    """Whatever stands first in its message."""
    system = {"content": SHARED, "role": "developer"}
    users = [{"role": "user", "content": f"I am {number}."} for number in range(AGENTS)]
    bodies = [{"model": "mock", "max_tokens": 1, key: [system, user]} for user in users]
    assert len({running.server("", body) for body in bodies}) > 1
    assert len({running.server("", {**bodies[0], "metadata": {"turn": turn}}) for turn in range(8)}) == 1
