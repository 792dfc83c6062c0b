"""`lbgen apply` in front of a running Envoy: files are taken as they are replaced, checked whole before."""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from integration.envoy_site import lbgen, lbgen_command, mocks, pool, program, running
from integration.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from integration.envoy_site import MockServer, Site

pytestmark = pytest.mark.usefixtures("envoy_version")


def apply(site: Site, fleet: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    return lbgen(site, fleet, "apply", "--to", str(site.folder), "--binary", f"envoy={program()}", *words)


def asked_meanwhile(site: Site, done: threading.Event, found: list[int]) -> None:
    while not done.is_set():
        found.append(site.ask("/v1/models").status)


def constantly(site: Site, act: Callable[[], None]) -> list[int]:
    """Return the statuses of requests that four clients send without a pause, while `act` does its work."""
    done, found = threading.Event(), list[int]()
    with ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(asked_meanwhile, site, done, found) for _ in range(4)]
        try:
            act()
        finally:
            done.set()
        for one in asking:
            one.result()
    return found


@pytest.fixture
def servers() -> Iterator[list[MockServer]]:
    with mocks(2) as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, servers: list[MockServer]) -> Iterator[Site]:
    """An Envoy that runs what an apply has put there, one pool of two servers."""
    folder = tmp_path / "envoy"
    folder.mkdir()
    with running({"pools": {"chat": pool(servers)}}, folder) as made:
        first = apply(made, {"pools": {"chat": pool(servers)}})
        assert first.returncode == 0, first.stderr
        yield made


def test_a_change_takes_effect_without_a_reload_and_cuts_no_stream(
    site: Site, servers: list[MockServer]
) -> None:
    servers[0].pieces = servers[1].pieces = 20
    servers[0].gap_s = servers[1].gap_s = 0.1
    with site.stream("/v1/chat/completions") as answer:
        assert answer.read(8)
        fleet = {
            "pools": {"chat": pool(servers[:1]), "other": pool(servers[1:])},
            "listeners": {"public": {"routes": [{"path": "/other", "pool": "other"}, {"pool": "chat"}]}},
        }
        done = apply(site, fleet, "--max-change", "50%")
        assert done.returncode == 0, done.stderr
        assert "answers with the new configuration and is ready" in done.stderr
        assert "--reload" not in done.stderr
        assert b"data: 19" in answer.read()
    servers[0].gap_s = servers[1].gap_s = 0
    assert site.ask("/other").headers["x-mock"] == "s1"
    assert {site.ask("/v1/models").headers["x-mock"] for _ in range(6)} == {"s0"}
    assert (site.folder / "endpoints" / "other.yaml").exists()
    back = apply(site, {"pools": {"chat": pool(servers)}}, "--max-change", "100%")
    assert back.returncode == 0, back.stderr
    assert not (site.folder / "endpoints" / "other.yaml").exists()


def test_what_envoy_would_not_take_is_refused_before_anything_is_replaced(
    site: Site, servers: list[MockServer]
) -> None:
    before = {path: path.read_bytes() for path in site.folder.rglob("*.yaml")}
    fleet = {
        "pools": {"chat": pool(servers, strategy="round_robin")},
        "targets": {"envoy": {"raw": {"listener": ["nonsense: 5"]}}},  # in a file that it watches
    }
    done = apply(site, fleet)
    assert done.returncode == 1
    assert "nonsense" in done.stderr
    assert {path: path.read_bytes() for path in site.folder.rglob("*.yaml")} == before


def test_files_that_would_name_others_are_refused(
    site: Site, servers: list[MockServer], tmp_path: Path
) -> None:
    fleet = {
        "pools": {"chat": pool(servers)},
        "targets": {"envoy": {"directory": str(tmp_path / "elsewhere")}},
    }
    done = apply(site, fleet)
    assert done.returncode == 1
    assert "the files refer to" in done.stderr


def test_most_of_a_pool_does_not_go_at_once(site: Site, servers: list[MockServer]) -> None:
    done = apply(site, {"pools": {"chat": pool(servers[:1])}})
    assert done.returncode == 1
    assert "would lose 1 of 2 servers" in done.stderr


def test_what_is_read_at_a_start_alone_is_said(site: Site, servers: list[MockServer]) -> None:
    fleet = {"pools": {"chat": pool(servers)}, "targets": {"envoy": {"admin": "127.0.0.1:1"}}}
    done = apply(site, fleet)
    assert done.returncode == 0, done.stderr
    assert "envoy.yaml is only read at start-up" in done.stderr
    assert "restart" in done.stdout


@pytest.mark.parametrize("checks", [{}, {"health": False}], ids=["checked", "unchecked"])
def test_no_request_fails_while_all_servers_of_a_pool_are_replaced(
    site: Site, servers: list[MockServer], checks: dict[str, Any]
) -> None:
    assert apply(site, {"pools": {"chat": pool(servers, **checks)}}).returncode == 0
    with mocks(4) as others:
        for one in others:
            one.health_s = 0.3

        def there_and_back() -> None:
            for wanted in (others[:2], others[2:], others[:2]):
                done = apply(site, {"pools": {"chat": pool(wanted, **checks)}}, "--max-change", "100%")
                assert done.returncode == 0, done.stderr

        statuses = constantly(site, there_and_back)
        assert len(statuses) > 100
        assert set(statuses) == {200}
        assert {site.ask("/v1/models").headers["x-mock"] for _ in range(9)} == {"s0", "s1"}
        text = (site.folder / "endpoints" / "chat.yaml").read_text()
        assert str(others[0].port) in text
        assert str(others[2].port) not in text


def test_the_old_servers_stay_where_no_new_one_passes_its_check(site: Site) -> None:
    before = (site.folder / "endpoints" / "chat.yaml").read_text()
    with mocks(2) as others:
        for one in others:
            one.health = 500
        done = apply(site, {"pools": {"chat": pool(others)}}, "--max-change", "100%", "--timeout", "3s")
    assert done.returncode == 2
    assert "pool chat: none of its new servers passed a health check" in done.stderr
    assert (site.folder / "endpoints" / "chat.yaml").read_text() == before
    assert {site.ask("/v1/models").headers["x-mock"] for _ in range(9)} == {"s0", "s1"}


def test_an_apply_that_is_killed_between_old_and_new_servers_is_mended(
    site: Site, servers: list[MockServer]
) -> None:
    with mocks(2) as others:
        for one in others:
            one.health = 500
        wanted = {"pools": {"chat": pool(others)}}
        options = ("--to", str(site.folder), "--binary", f"envoy={program()}", "--max-change", "100%")
        with subprocess.Popen(lbgen_command(site, wanted, "apply", *options)) as process:
            file = site.folder / "endpoints" / "chat.yaml"
            eventually(lambda: str(others[0].port) in file.read_text(), 30, "both are in the file")
            process.kill()
        assert str(servers[0].port) in file.read_text()
        assert {site.ask("/v1/models").headers["x-mock"] for _ in range(9)} == {"s0", "s1"}
        for one in others:
            one.health = 200

        def again() -> None:
            done = apply(site, wanted, "--max-change", "100%")
            assert done.returncode == 0, done.stderr

        assert set(constantly(site, again)) == {200}
        assert str(servers[0].port) not in file.read_text()
