"""A healthy server is not taken for dead, and a dead one stops nobody.

Only a failed connection, a timeout or a broken answer is a server's failure. What a server says on purpose is
not, however often it is tried elsewhere.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from integration.fleets import THREE, Proxy, chat
from lbgen.lab.mock.echo import HEADER as ECHO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from integration.conftest import Start
    from lbgen.lab.boxes import Balancer, MockBox

TRIES = THREE
CHAT = {"Content-Type": "application/json", "x-mock-pace": "0.01,0"}
BODY = json.dumps(
    {"model": "mock", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
).encode()
CHECKED = {"interval": "300ms", "timeout": "300ms", "rise": 1, "fall": 2}
PIECE = 50_000
"""Letters in one header: Python reads no line over 65,536 bytes."""


def ask(balancer: Balancer, headers: Mapping[str, str] = CHAT) -> tuple[int, str]:
    """Return the status of an answer, and which server it came from."""
    connection = http.client.HTTPConnection(balancer.address, balancer.port, timeout=20)
    try:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", "/v1/chat/completions", BODY, dict(headers))
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("x-mock-server", "")
    finally:
        connection.close()


def answers(balancer: Balancer, count: int, headers: Mapping[str, str] = CHAT) -> Counter[tuple[int, str]]:
    """Return how often which status came from which server."""
    return Counter(ask(balancer, headers) for _ in range(count))


def statuses(found: Counter[tuple[int, str]]) -> set[int]:
    return {status for status, _ in found}


def fail_all(mocks: Iterable[MockBox], status: int) -> None:
    for mock in mocks:
        mock.fault("status", status=status)


def heal_all(mocks: Iterable[MockBox]) -> None:
    for mock in mocks:
        mock.heal()


@pytest.mark.parametrize("status", [429, 503])
def test_a_status_that_is_tried_again_ejects_nobody(
    proxy: Proxy, status: int, mocks: list[MockBox], start: Start
) -> None:
    if status == 429 and str(proxy) == "bookworm-haproxy":
        pytest.xfail("HAProxy 2.6 does not retry 429: the fleet is refused")
    retry = {"attempts": 2, "on": ["connect", status], "replay_posts": True}
    with start(chat("round_robin", retry=retry), proxy) as balancer:
        fail_all(mocks, status)
        refused = answers(balancer, 5)
        heal_all(mocks)
        recovered = answers(balancer, 12)
    assert statuses(refused) == {status}
    assert statuses(recovered) == {200}
    assert len(recovered) == len(mocks), "all servers are used at once"


@pytest.mark.parametrize("other", [{"state": "down"}, {"state": "drain"}, {"weight": 0}])
def test_the_only_server_that_is_left_is_never_out(
    proxy: Proxy, other: dict[str, Any], mocks: list[MockBox], start: Start
) -> None:
    servers = ["gpu-0:8000", {"address": "gpu-1:8000", **other}]
    with start(chat(servers=servers, health=False), proxy) as balancer:
        mocks[0].crash()
        refused = answers(balancer, 5)
        mocks[0].start()
        recovered = answers(balancer, 4)
    assert statuses(refused) <= {502, 503}
    assert recovered == {(200, "gpu-0"): 4}


def test_a_backup_takes_over_at_once_and_stays(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    primaries = [f"gpu-{number}:8000" for number in range(3)]
    pool = chat(
        servers=[*primaries, {"address": "gpu-3:8000", "backup": True}],
        passive_health={"failures": 3, "window": "2s", "eject": "2s"},
        health=CHECKED,
    )
    with start(pool, proxy) as balancer:
        for mock in mocks[:3]:
            mock.crash()
        # HAProxy and Envoy have to see it: their backups take over when all others are down.
        time.sleep(0 if proxy.target == "nginx" else 2)
        first = answers(balancer, 8)
        time.sleep(3)
        later = answers(balancer, 8)
        mocks[0].start()
        time.sleep(3)
        back = answers(balancer, 8)
    assert first == later == {(200, "gpu-3"): 8}
    assert back[200, "gpu-0"] >= 4


def big(letters: int) -> dict[str, str]:
    """Return the headers of a request whose answer has headers of so many letters."""
    pieces = {f"X-Big-{at}": min(PIECE, letters - at) for at in range(0, letters, PIECE)}
    return {ECHO: json.dumps(pieces)}


def long(letters: int) -> dict[str, str]:
    """Return headers of so many letters."""
    return {f"X-Long-{at}": "x" * min(PIECE, letters - at) for at in range(0, letters, PIECE)}


@pytest.mark.usefixtures("mocks")
def test_headers_of_32_kib_pass_both_ways(proxy: Proxy, start: Start) -> None:
    with start(chat(servers=["gpu-0:8000", "gpu-1:8000"]), proxy) as balancer:
        assert statuses(answers(balancer, 8, big(32_000))) == {200}
        assert statuses(answers(balancer, 2, {**CHAT, **long(32_000)})) == {200}


@pytest.mark.usefixtures("mocks")
def test_headers_that_are_too_long_eject_nobody(proxy: Proxy, start: Start) -> None:
    with start(chat(servers=["gpu-0:8000", "gpu-1:8000"]), proxy) as balancer:
        # NGINX has room for eight times as much, since what does not fit counts as a failure.
        assert statuses(answers(balancer, 8, big(200_000))) <= {200, 502}
        if proxy.target == "nginx":  # HAProxy hangs up on whoever sends on
            assert statuses(answers(balancer, 2, {**CHAT, **long(80_000)})) == {431}
        assert statuses(answers(balancer, 8)) == {200}


@pytest.mark.parametrize("kib", [8, 100])
@pytest.mark.usefixtures("mocks")
def test_the_length_of_headers_can_be_set(proxy: Proxy, kib: int, start: Start) -> None:
    size = f"{kib}KiB"
    fleet = chat(header_size=size)
    fleet["listeners"] = {"all": {"bind": "8080", "header_size": size, "routes": [{"pool": "chat"}]}}
    with start(fleet, proxy) as balancer:
        assert statuses(answers(balancer, 4, big(kib * 1_000))) == {200}
        assert statuses(answers(balancer, 2, {**CHAT, **long(kib * 1_000)})) == {200}


def test_a_crashed_server_is_left_out(proxy: Proxy, mocks: list[MockBox], start: Start) -> None:
    """Else the tests above would prove that nothing is ever ejected."""
    with start(chat("round_robin", health=CHECKED), proxy) as balancer:
        mocks[1].crash()
        time.sleep(2 if proxy.target == "haproxy" else 0)
        found = answers(balancer, 16)
    assert statuses(found) == {200}
    assert not found[200, "gpu-1"]
