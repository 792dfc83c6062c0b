"""`lbgen apply` in front of a running Envoy: files are taken as they are replaced, checked whole before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration.envoy_site import lbgen, mocks, pool, program, running

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from integration.envoy_site import MockServer, Site


def apply(site: Site, fleet: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    return lbgen(site, fleet, "apply", "--to", str(site.folder), "--binary", f"envoy={program()}", *words)


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
    assert "name each other" in done.stderr


def test_most_of_a_pool_does_not_go_at_once(site: Site, servers: list[MockServer]) -> None:
    done = apply(site, {"pools": {"chat": pool(servers[:1])}})
    assert done.returncode == 1
    assert "would lose 1 of 2 servers" in done.stderr


def test_what_is_read_at_a_start_alone_is_said(site: Site, servers: list[MockServer]) -> None:
    fleet = {"pools": {"chat": pool(servers)}, "targets": {"envoy": {"admin": "127.0.0.1:1"}}}
    done = apply(site, fleet)
    assert done.returncode == 0, done.stderr
    assert "envoy.yaml is read at a start alone" in done.stderr
    assert "restart" in done.stdout
