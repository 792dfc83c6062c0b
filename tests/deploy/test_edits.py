"""The edits of a fleet file that give a server a state: what is pasted keeps every server's name."""

from __future__ import annotations

import pytest
import yaml

from lbgen.deploy.runtime.edits import state_edit
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.model import Fleet


def fleet(servers: str) -> Fleet:
    loaded = load([Source("f", f"pools: {{a: {{servers: {servers}}}}}")], environ={})
    assert loaded.fleet is not None, loaded.problems
    return loaded.fleet


@pytest.mark.parametrize(
    "servers", ['[{address: "10.0.0.[1-3]:80", name: "h-{n}"}]', '["10.0.0.[1-3]:80"]', '"gpu-[1-3]:80"']
)
def test_the_servers_of_a_range_keep_their_names(servers: str) -> None:
    before = fleet(servers)
    pool = before.pool("a")
    _, _, lines = state_edit(before, pool, pool.servers[1], "drain").partition("\n")
    after = fleet(str(yaml.safe_load(lines))).pool("a")
    assert {server.name for server in after.servers} == {server.name for server in pool.servers}
    assert [server.name for server in after.servers if server.state.value == "drain"] == [
        pool.servers[1].name
    ]


def test_a_single_server_s_is_an_option_of_apply() -> None:
    before = fleet("[{address: 'a:1', name: one}, 'b:2']")
    pool = before.pool("a")
    assert state_edit(before, pool, pool.servers[0], "drain") == "--set 'pools.a.servers[0].state=drain'"
