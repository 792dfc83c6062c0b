"""Servers by name: a name moves and requests follow, without a reload, from a start without any address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import PROXIES, THREE, Proxy, chat
from integration.name_server import NameServer
from integration.waiting import eventually
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.boxes import fetch
from lbgen.targets.nginx.features import FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox
    from lbgen.lab.rig import Rig

TRIES = THREE

NAME = "moving.lbgen.test"
BODY = json.dumps({"model": "mock", "prompt": "hello", "max_tokens": 1}).encode()
PATIENCE_S = 20
HEALTH = {"health": {"interval": "1s", "timeout": "1s", "rise": 1, "fall": 2}}


def follows(proxy: Proxy) -> bool:
    """Tell whether this version looks names up while it runs."""
    major, minor = proxy.version.split(".")
    since = FEATURES["resolve"].since
    return proxy.target == "haproxy" or (int(major), int(minor), 99) >= since


FOLLOWING = tuple(proxy for proxy in PROXIES if follows(proxy))
REFUSING = tuple(proxy for proxy in PROXIES if not follows(proxy))


@pytest.fixture
def name_server(rig: Rig) -> Iterator[NameServer]:
    """A name server on the rig's network, which knows no name at first."""
    with NameServer(rig.gateway) as server:
        yield server


def by_name(form: str, resolver: str) -> dict[str, Any]:
    """Return a fleet that knows its servers by one name: a server, or as many as the name has addresses."""
    dns = {"mode": "runtime", "resolver": [resolver], "valid": "1s"}
    if form == "server":
        return chat("round_robin", f"{NAME}:8000", dns=dns, **HEALTH)
    fleet = chat("round_robin", dns=dns, discover={"dns": NAME, "port": 8000, "max": 4}, **HEALTH)
    del fleet["pools"]["chat"]["servers"]
    return fleet


@pytest.mark.parametrize("proxy", FOLLOWING, ids=str)
@pytest.mark.parametrize("form", ["server", "discover"])
def test_requests_follow_a_name(
    form: str, proxy: Proxy, mocks: list[MockBox], name_server: NameServer, start: Start
) -> None:
    with start(by_name(form, name_server.address), proxy) as balancer:
        assert ask(balancer) in {502, 503}, "it runs, and says that nobody is there"
        move(name_server, mocks[0])
        eventually(lambda: ask(balancer) == "gpu-0", PATIENCE_S, "the name appears")
        move(name_server, mocks[1])
        eventually(lambda: ask(balancer) == "gpu-1", PATIENCE_S, "the name moves")
        eventually(lambda: {ask(balancer) for _ in range(8)} == {"gpu-1"}, PATIENCE_S, "and is gone before")
        if form == "discover":
            move(name_server, mocks[1], mocks[2], mocks[3])
            everybody = {"gpu-1", "gpu-2", "gpu-3"}
            eventually(lambda: {ask(balancer) for _ in range(9)} == everybody, PATIENCE_S, "more addresses")
    assert name_server.asked > 2


@pytest.mark.parametrize("proxy", REFUSING, ids=str)
def test_a_version_that_cannot_follow_refuses(proxy: Proxy) -> None:
    text = json.dumps(by_name("server", "127.0.0.1:53"))
    loaded = load([Source("f.yaml", text)], environ={}, targets=("nginx",), versions={"nginx": proxy.version})
    refusals = [problem for problem in loaded.problems if problem.code == "target-refused"]
    assert len(refusals) == 1
    assert str(FEATURES["resolve"].since) in refusals[0].message
    assert refusals[0].hint


def move(server: NameServer, *mocks: MockBox) -> None:
    """Let the name lead to these servers alone."""
    server.names = {NAME: tuple(mock.address for mock in mocks)}


def ask(balancer: Balancer) -> str | int:
    """Return who answers a request, or the status of the balancer's own answer."""
    headers = {"content-type": "application/json"}
    answer = fetch(f"{balancer.url}/v1/completions", "POST", BODY, 10.0, **headers)
    return answer.headers.get("x-mock-server", answer.status)
