"""`kv_cache` in a trial: the real agent, in front of mock GPU servers."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest

from integration.waiting import eventually
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.problems import RigError
from lbgen.lab.trial.stage.mapping import Standing
from lbgen.lab.trial.stage.running import process
from lbgen.lab.trial.stage.watching import agent, fleet_of
from lbgen.model import Pool
from lbgen.units import Address

FLEET = """
pools:
  chat: {engine: sglang, strategy: {name: kv_cache, drain_above: 0.9}, max_in_flight: 64,
         servers: ["gpu-0:8000", {address: "gpu-1:8000", max_in_flight: 9}]}
targets: {haproxy: {}}
"""


def _pool(text: str = FLEET) -> Pool:
    loaded = load([Source("fleet.yaml", text)], environ={})
    assert loaded.fleet is not None, loaded.problems
    return loaded.fleet.pools[0]


def _servers(*ports: int) -> dict[str, Standing]:
    addresses = [Address("127.0.0.1", port) for port in ports]
    return {f"gpu-{number}": Standing(one, one) for number, one in enumerate(addresses)}


def test_its_fleet_is_one() -> None:
    pool = _pool(json.dumps(fleet_of(_pool(), _servers(7, 8))))
    assert pool.strategy == _pool().strategy
    assert (pool.engine, str(pool.servers[1].address)) == ("sglang", "127.0.0.1:8")
    assert [pool.cap(server) for server in pool.servers] == [64, 9]


def _ask(address: Address) -> bytes:
    with socket.create_connection((address.host, address.port), 5) as one:
        one.sendall(b"chat/gpu-0\n")
        return one.recv(100)


def test_it_answers_and_must_be_asked(tmp_path: Path) -> None:
    with ExitStack() as stack:
        words = [sys.executable, "-m", "lbgen.lab.trial.stage.farm", "", *['{"engine": "sglang"}'] * 2]
        mock = stack.enter_context(process(words, tmp_path / "mock.log", stdout=PIPE))
        assert mock.stdout is not None
        servers = _servers(*(plain for plain, _ in json.loads(mock.stdout.readline())))
        with agent(_pool(), servers, tmp_path) as address:
            eventually(lambda: _ask(address).startswith(b"up 100%"), 60, "the first reading")
        with pytest.raises(RigError, match="did not reach lbgen agent"), agent(_pool(), servers, tmp_path):
            pass
