"""NGINX where no script counts: conversations have homes, by what a map can read or njs of any version."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import renewed
from integration.fleets import PROXIES, SERVERS, Proxy, chat, files
from integration.test_njs import NAMES, SHARED, turns
from integration.test_strategies import Running
from integration.test_strategies import chat as asking

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
    names = [f"agent-{time.monotonic()}-{number}" for number in range(AGENTS)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda name: turns(running, name, 0, 4), names))
    assert all(len(set(servers)) == 1 for servers in found), found
    shares = Counter(servers[0] for servers in found)
    assert set(shares) == set(SERVERS)
    assert max(shares.values()) <= AGENTS // 2, shares


@pytest.mark.parametrize(("named", "headers"), NAMES)
def test_what_names_a_conversation(running: Running, named: dict[str, Any], headers: dict[str, str]) -> None:
    chats = {**asking(SHARED), **named}
    body = {key: value for key, value in chats.items() if value is not None}
    changing = [{**body, "metadata": {"turn": turn}} for turn in range(8)]
    assert len({running.server("", one, **headers) for one in changing}) == 1
