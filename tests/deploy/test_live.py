from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.cli.operate.plan_words import summary
from lbgen.deploy.planning.change import RUNTIME
from lbgen.deploy.planning.plan import make_plan
from lbgen.deploy.runtime.inventory_diff import file_changes
from lbgen.deploy.runtime.live import _parameters, can_add, change, obstacle
from lbgen.files import write_files
from lbgen.model import Pool, ServerTls, State, StrategyChoice
from lbgen.problems import LbgenError
from lbgen.render import render
from lbgen.targets.haproxy.reading.read import read
from lbgen.targets.inventory import Inventory
from tests import factory
from tests.deploy.fake_haproxy import FakeHaproxy, Server
from tests.properties.examples import examples


def pool(names: str, **values: object) -> Pool:
    return factory.pool(servers=factory.servers(names), **values)


def inventory(one: Pool) -> Inventory:
    fleet = factory.fleet(one, targets=(factory.settings("haproxy", "2.6"),))
    return read(render(fleet, "haproxy")[0].text)


def addable(one: Pool) -> bool:
    entry = inventory(one).pools["chat"]
    return can_add(entry, next(reversed(entry.servers.values())))


@pytest.mark.parametrize("strategy", ["round_robin", "least_conn", "random_two"])
def test_an_address_fits_into_a_running_pool(strategy: str) -> None:
    assert addable(pool("10.0.0.[1-3]:8000", strategy=StrategyChoice(strategy)))
    assert addable(pool("[fd00::2]:8000", strategy=StrategyChoice(strategy)))


def test_what_only_a_reload_can_do() -> None:
    assert not addable(pool("gpu-[0-3]:8000")), "the socket looks up no names"
    assert not addable(pool("10.0.0.[1-3]:8000", strategy=StrategyChoice("pack"), max_in_flight=4))
    assert not addable(pool("10.0.0.[1-3]:8000", strategy=StrategyChoice("kv_cache"))), (
        "agent-send ends in \\n"
    )


def words(tmp_path: Path, old: Pool, new: Pool) -> dict[str, bool]:
    fleets = [factory.fleet(one, targets=(factory.settings("haproxy", "2.6"),)) for one in (old, new)]
    write_files(tmp_path, render(fleets[0], "haproxy"))
    plan = make_plan("haproxy", tmp_path, render(fleets[1], "haproxy"), socket=True)
    return {summary(change).removeprefix("pool chat: "): change.effect == "reload" for change in plan.changes}


def test_a_plan_says_which_way(tmp_path: Path) -> None:
    assert words(tmp_path, pool("10.0.0.[1-3]:8000"), pool("10.0.0.[2-4]:8000")) == {
        "+ 10.0.0.4": False,
        "- 10.0.0.1": False,
    }
    assert words(tmp_path, pool("gpu-[1-3]:8000"), pool("gpu-[2-4]:8000")) == {
        "+ gpu-4": True,
        "- gpu-1": False,
    }


def test_an_agents_base_and_a_name_need_a_reload(tmp_path: Path) -> None:
    old = pool("10.0.0.[1-3]:8000", strategy=StrategyChoice("kv_cache"))
    servers = (old.servers[0]._replace(weight=2), *old.servers[1:])
    found = words(tmp_path, old, old._replace(servers=servers))
    assert {reload for text, reload in found.items() if " weight " in text} == {True}
    named = old.servers[0]._replace(address=old.servers[0].address._replace(host="gpu"), name="10.0.0.1")
    plain = pool("10.0.0.[1-3]:8000")
    found = words(tmp_path, plain, plain._replace(servers=(named, *plain.servers[1:])))
    assert {reload for text, reload in found.items() if " address " in text} == {True}


def test_obstacles(tmp_path: Path) -> None:
    one, two = inventory(pool("10.0.0.1:8000")), inventory(pool("10.0.0.[1-2]:8000"))
    assert "no answer" in obstacle(str(tmp_path / "nobody"), one, two)
    with FakeHaproxy(tmp_path / "s", **{"10.0.0.2": Server()}) as balancer:
        assert "10.0.0.1 is in the file, but not running" in obstacle(str(balancer.path), one, two)
    with FakeHaproxy(tmp_path / "t", **{"10.0.0.1": Server(), "10.0.0.2": Server()}) as balancer:
        assert "10.0.0.2 still exists from before" in obstacle(str(balancer.path), one, two)
        assert obstacle(str(balancer.path), two, two) == ""
        balancer.servers["10.0.0.1"].weight = 7
        assert "10.0.0.1 runs with weight 7, in the file 1" in obstacle(str(balancer.path), two, two)
        balancer.servers["10.0.0.1"].admin = 8
        assert obstacle(str(balancer.path), two, two) == "", "who drains it may also weigh it"


def test_a_check_speaks_tls_where_the_server_does() -> None:
    tls = ServerTls(ca=None, server_name="gpu", verify=False, certificate=None, key=None)
    assert "check-ssl" in parameters(pool("10.0.0.1:8000", tls=tls))
    assert "check-ssl" not in parameters(pool("10.0.0.1:8000"))
    health = factory.pool().health._replace(port=8001)  # type: ignore[union-attr]
    assert "check-ssl" not in parameters(pool("10.0.0.1:8000", tls=tls, health=health)), "as with a file's"


def parameters(one: Pool) -> list[str]:
    """The words that a pool's first server is added with."""
    [entry] = inventory(one).pools["chat"].servers.values()
    return list(_parameters(entry))


def test_a_server_that_haproxy_refuses_ends_the_change(tmp_path: Path) -> None:
    one, two = inventory(pool("10.0.0.1:8000")), inventory(pool("10.0.0.[1-2]:8000"))
    with FakeHaproxy(tmp_path / "s", **{"10.0.0.1": Server()}) as balancer:
        balancer.refuses = "Already exists a server with the same name in this backend."
        with pytest.raises(LbgenError, match=r"'add server chat/10\.0\.0\.2 .*' was refused: Already exists"):
            change(str(balancer.path), one, two, lambda _: None)
        assert not [line for line in balancer.said if line.startswith("enable")]


def test_a_server_that_comes_is_added_checked_and_enabled(tmp_path: Path) -> None:
    one, two = inventory(pool("10.0.0.1:8000")), inventory(pool("10.0.0.[1-2]:8000"))
    with FakeHaproxy(tmp_path / "s", **{"10.0.0.1": Server()}) as balancer:
        change(str(balancer.path), one, two, lambda _: None)
        added, *then = balancer.said
        assert added.startswith("add server chat/10.0.0.2 10.0.0.2:8000 ")
        assert " check inter " in added
        assert then[:2] == ["enable health chat/10.0.0.2", "enable server chat/10.0.0.2"]


# over the socket a running HAProxy becomes what a new file would make of it


KEYS = st.fixed_dictionaries({
    "weight": st.sampled_from([0, 1, 3]),
    "max_in_flight": st.sampled_from([None, 4, 7]),
    "state": st.sampled_from(list(State)),
    "address": st.sampled_from(["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.2:9000"]),
})  # fmt: skip
FLEETS = st.dictionaries(st.sampled_from("abc"), KEYS)


def file_of(servers: dict[str, dict[str, Any]]) -> Inventory:
    (usual,) = factory.servers("10.0.0.9:8000")  # always there: what holds for all servers stays as it is
    made = tuple(
        usual._replace(name=name, **{**keys, "address": factory.servers(keys["address"])[0].address})
        for name, keys in servers.items()
    )
    return inventory(factory.pool(servers=(usual._replace(name="z", max_in_flight=9), *made)))


def started(file: Inventory) -> dict[str, Server]:
    """Return the servers of a process that was just started with a file."""
    return {
        name: Server(
            weight=entry.weight, cap=str(entry.cap or ""), address=entry.address,
            admin=5 if entry.state == "down" else 0,
        )
        for name, entry in file.pools["chat"].servers.items()
    }  # fmt: skip


def meant(servers: dict[str, Server]) -> dict[str, tuple[Any, ...]]:
    """Return what servers do: where, with which cap, and whether they take requests, how many or never."""
    return {
        name: (one.address, one.cap, "down" if one.admin & 1 else "drain" if one.admin & 8 else one.weight)
        for name, one in servers.items()
    }


@given(st.lists(FLEETS, min_size=2, max_size=5))
@examples(20, 2_000)
def test_changes_over_the_socket_make_what_the_file_says(fleets: list[dict[str, dict[str, Any]]]) -> None:
    old, *others = [file_of(one) for one in fleets]
    with TemporaryDirectory() as folder, FakeHaproxy(Path(folder) / "s", **started(old)) as balancer:
        for new in others:
            if {one.effect for one in file_changes(old, new, socket=True)} <= {RUNTIME}:
                assert obstacle(str(balancer.path), old, new) == ""
                change(str(balancer.path), old, new, lambda _: None)
                assert meant(balancer.servers) == meant(started(new))
                old = new


def test_a_server_that_drains_after_it_was_down_serves_again() -> None:
    """Its weight alone drains it: HAProxy's own order to drain would outlast the file that says so."""
    keys = {"weight": 1, "max_in_flight": None, "address": "10.0.0.1:8000"}
    ways = [State.DOWN, State.DRAIN, State.UP]
    files = [file_of({"a": {**keys, "state": state}}) for state in ways]
    with TemporaryDirectory() as folder, FakeHaproxy(Path(folder) / "s", **started(files[0])) as balancer:
        for old, new in pairwise(files):
            change(str(balancer.path), old, new, lambda _: None)
        assert (balancer.servers["a"].admin & 9, balancer.servers["a"].weight) == (0, 1)
