"""When HAProxy learns prefixes, and when it hashes them."""

from __future__ import annotations

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.render import render

ALIKE = '"gpu-[0-3]:8000"'
HASHED = "balance hash var(txn.lb_prefix_chat)"


def backend(servers: str = ALIKE, more: str = "", rest: str = "", version: str = "2.6") -> list[str]:
    """Return the lines of the pool's backend."""
    pool = f"engine: vllm, strategy: {{name: prefix, load_factor: 1.5}}, servers: {servers}{more}"
    source = Source("fleet.yaml", f"pools:\n  chat: {{{pool}}}\n{rest}")
    loaded = load([source], environ={}, targets=("haproxy",), versions={"haproxy": version})
    assert loaded.fleet is not None, loaded.problems
    text = render(loaded.fleet, "haproxy")[0].text
    return [line.strip() for line in text.partition("\nbackend chat ")[2].splitlines()]


@pytest.mark.parametrize("more", ["", ", max_in_flight: 8"])
def test_servers_that_are_alike_learn(more: str) -> None:
    lines = backend(more=more)
    assert HASHED not in lines
    assert "balance leastconn" in lines
    assert any(line.startswith("stick-table ") for line in lines)
    assert any(line.startswith("stick match ") and " table second:chat " in line for line in lines)
    share = "be_conn(chat),mul(150),add(txn.lb_alive),sub(1),div(txn.lb_alive)"
    assert f"http-request set-var(txn.lb_share) {share}" in lines
    assert any("be_conn_free(chat)" in line for line in lines) == bool(more)


@pytest.mark.parametrize(
    ("servers", "rest"),
    [
        ('[{address: "gpu-0:8000", weight: 2}, "gpu-1:8000"]', ""),
        ('[{address: "gpu-0:8000", max_in_flight: 2}, "gpu-1:8000"]', ""),
        (ALIKE, "balancers: 2\n"),
    ],
    ids=["weights", "caps", "balancers"],
)
def test_otherwise_they_hash(servers: str, rest: str) -> None:
    lines = backend(servers, rest=rest)
    assert HASHED in lines
    assert not any(line.startswith("stick") or "track-sc" in line for line in lines)


LIMITS = """
listeners:
  default:
    bind: 127.0.0.1:8080
    limits: [{rate: 9/s, per: ip}, {rate: 99/m, per: ip}, {rate: 99/s, per: total}]
"""


def test_requests_are_counted_beside_their_limits() -> None:
    assert HASHED in backend(rest=LIMITS)
    assert any("track-sc3" in line for line in backend(rest=LIMITS, version="3.0"))
    assert any("track-sc0" in line for line in backend())


def test_a_server_that_is_being_drained_is_nobodys_home() -> None:
    drained = backend('[{address: "gpu-0:8000", state: drain}, "gpu-1:8000", "gpu-2:8000"]')
    assert HASHED not in drained
    [own] = [line.split(" id ")[1].split()[0] for line in drained if line.startswith("server gpu-0 ")]
    forgotten = [line for line in drained if line.startswith("http-request unset-var(txn.lb_home)")]
    assert any(line.endswith(f" {own} }}") for line in forgotten)
