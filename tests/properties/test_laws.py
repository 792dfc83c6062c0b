"""Laws that hold for every fleet: what is read back, what an overlay does, what no order changes."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lbgen.deploy.planning.plan import make_plan
from lbgen.files import write_files
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.fleet.written.show import as_yaml, shown_values
from lbgen.model import State
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from lbgen.targets.haproxy.pools.strategies import weight_scale
from lbgen.targets.registry import TARGETS
from lbgen.units import Address, Rate, expand_ranges, parse_address, parse_rate
from lbgen.vocabulary import Version
from tests.properties.examples import examples
from tests.properties.fleets import completed, drafts, fleets

if TYPE_CHECKING:
    from lbgen.fleet.load import Loaded
    from lbgen.model import Fleet, Pool
    from lbgen.render import RenderedFile

VERSIONS = {"nginx": "1.26", "haproxy": "3.0", "envoy": "1.36"}


def read(*texts: str, sets: tuple[str, ...] = (), target: str = "haproxy") -> Loaded:
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    return load(sources, sets=sets, environ={}, targets=(target,), versions={target: VERSIONS[target]})


def files(fleet: Fleet, target: str) -> tuple[RenderedFile, ...]:
    return tuple(render(fleet, target, secrets=StandInSecrets()))


# what was rendered is read back


def expected(target: str, fleet: Fleet, pool: Pool) -> dict[str, tuple[Any, ...]]:
    """Return what a reader has to find: name or address -> address, weight, cap, state, spare."""
    scale = weight_scale(fleet, pool) if target == "haproxy" else 1
    found = {}
    for server in pool.servers:
        serves = server.state is State.UP and server.weight > 0
        weight = server.weight * scale if serves else None
        state = "down" if server.state is State.DOWN else "up" if serves else "drain"
        name = server.name if target == "haproxy" else str(server.address)
        found[name] = (str(server.address), weight, pool.cap(server), state, server.backup)
    return found


@pytest.mark.parametrize("target", ["haproxy"])
@given(data=st.data())
@examples(10, 400)
def test_the_servers_that_were_rendered_are_read_back(target: str, data: st.DataObject) -> None:
    _, fleet = data.draw(fleets(target, VERSIONS[target]))
    found = TARGETS[target].read(files(fleet, target)[0].text).pools
    for pool in fleet.pools:
        if pool.discover is not None or pool.name not in found:
            continue
        got = {
            name: (one.address, one.weight if one.state == "up" else None, one.cap, one.state, one.backup)
            for name, one in found[pool.name].servers.items()
        }
        assert got == expected(target, fleet, pool)


@pytest.mark.parametrize("target", VERSIONS)
@given(data=st.data())
@examples(10, 200)
def test_a_plan_for_what_lies_there_is_empty(
    target: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, fleet = data.draw(fleets(target, VERSIONS[target]))
    folder, made = tmp_path_factory.mktemp("plan"), files(fleet, target)
    write_files(folder, made)
    plan = make_plan(target, folder, made)
    assert plan.is_empty
    assert (plan.changes, plan.losses, plan.diff()) == ((), (), "")


@pytest.mark.parametrize("target", VERSIONS)
@given(data=st.data())
@examples(20, 200)
def test_what_is_shown_is_the_same_fleet(target: str, data: st.DataObject) -> None:
    fleet = completed(data.draw(drafts(target)))
    once = load([Source("f", json.dumps(fleet))], environ={}, targets=(target,))
    if once.fleet is None or once.document is None:
        return
    again = load([Source("f", as_yaml(once.fleet, once.document))], environ={}, targets=(target,))
    assert again.fleet is not None, again.problems
    assert again.fleet.digest == once.fleet.digest
    assert again.document is not None
    assert shown_values(again.fleet, again.document) == shown_values(once.fleet, once.document)


# overlays


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Make two fleets: one is laid over the other."""
    return tuple(yaml.safe_dump(draw(drafts("haproxy"))) for _ in range(2))  # type: ignore[return-value]


def plain(loaded: Loaded) -> tuple[Any, list[tuple[str, str]]]:
    """Return what came of files: values, and problems without their places."""
    values = None
    if loaded.fleet is not None and loaded.document is not None:
        values = shown_values(loaded.fleet, loaded.document)
    return values, sorted((problem.code, problem.message) for problem in loaded.problems)


@given(pairs())
@examples(10, 400)
def test_an_overlay_is_a_projection(texts: tuple[str, str]) -> None:
    """Nothing laid over changes nothing; the same laid over once more neither; itself laid over is itself."""
    base, over = texts
    assert plain(read(base, "{}")) == plain(read(base))
    assert plain(read(base, over, over)) == plain(read(base, over))
    assert plain(read(base, base)) == plain(read(base))


@given(pairs(), st.sampled_from(["pools.a.timeouts.idle=7s", "listeners.l.max_body=1MiB", "name=other",
                                 "pools.b.queue.size=9", "balancers.count=1"]))  # fmt: skip
@examples(10, 300)
def test_set_is_an_overlay_of_one_key(texts: tuple[str, str], setting: str) -> None:
    path, value = setting.split("=")
    over: Any = yaml.safe_load(value)
    for key in reversed(path.split(".")):
        over = {key: over}
    assert plain(read(texts[0], sets=(setting,)))[0] == plain(read(texts[0], json.dumps(over)))[0]


# order


def shuffled(fleet: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return a fleet with its pools, listeners, clients and keys in another order."""
    chance = random.Random(seed)

    def mixed(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = list(value)
        chance.shuffle(keys)
        return {key: mixed(value[key]) for key in keys}

    return {key: mixed(value) for key, value in sorted(fleet.items(), reverse=bool(seed % 2))}


@pytest.mark.parametrize("target", ["nginx", "haproxy"])
@given(data=st.data(), seed=st.integers(0, 99))
@examples(10, 250)
def test_no_order_of_keys_changes_what_is_meant(target: str, data: st.DataObject, seed: int) -> None:
    """Pools, listeners and clients are told apart by name: what is said of each stays the same."""
    fleet = completed(data.draw(drafts(target)))
    one, other = (
        read(json.dumps(fleet), target=target),
        read(json.dumps(shuffled(fleet, seed)), target=target),
    )
    assert codes(one) == codes(other)
    if one.fleet is None or other.fleet is None or any(problem.is_error for problem in one.problems):
        return
    assert _unordered(one.fleet.pools) == _unordered(other.fleet.pools)
    assert _unordered(one.fleet.clients) == _unordered(other.fleet.clients)
    first, second = (
        TARGETS[target].read(files(found, target)[0].text).pools for found in (one.fleet, other.fleet)
    )
    assert {name: dict(pool.servers) for name, pool in first.items()} == {
        name: dict(pool.servers) for name, pool in second.items()
    }


def codes(loaded: Loaded) -> list[str]:
    """Return what is said; a message may name two pools in their order."""
    return sorted(problem.code for problem in loaded.problems)


def _unordered(named: tuple[Any, ...]) -> dict[str, Any]:
    return {one.name: one for one in named}


# tables of limitations


@pytest.mark.parametrize("target", VERSIONS)
@given(data=st.data())
@examples(10, 400)
def test_an_older_version_can_do_no_more(target: str, data: st.DataObject) -> None:
    """What is refused or lost on a version is on each older one."""
    fleet = completed(data.draw(drafts(target)))
    versions = {
        "nginx": ("1.22", "1.26", "1.30"),
        "haproxy": ("2.6", "3.0", "3.2"),
        "envoy": ("1.36", "1.40"),
    }
    said = []
    for version in versions[target]:
        text = json.dumps(fleet)
        loaded = load([Source("f", text)], environ={}, targets=(target,), versions={target: version})
        found = {
            (problem.code, problem.path) for problem in loaded.problems if problem.code.startswith("target-")
        }
        said.append(found)
    for older, newer in pairwise(said):
        assert newer <= older


# texts


@given(
    st.one_of(
        st.tuples(st.ip_addresses(v=4).map(str), st.integers(1, 65_535)),
        st.tuples(st.ip_addresses(v=6).map(lambda one: f"[{one}]"), st.integers(1, 65_535)),
        st.tuples(st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z][a-z0-9]{0,8}){0,2}", fullmatch=True),
                  st.integers(1, 65_535)),
    )
)  # fmt: skip
@examples(200, 2_000)
def test_a_printed_address_reads_back(parts: tuple[str, int]) -> None:
    address = parse_address(f"{parts[0]}:{parts[1]}")
    assert parse_address(str(address)) == address == Address(address.host, parts[1])
    assert str(address) == f"{parts[0]}:{parts[1]}"


@given(st.integers(1, 10**6), st.sampled_from([1, 60, 3_600]))
@examples(100, 1_000)
def test_a_printed_rate_reads_back(requests: int, seconds: int) -> None:
    rate = Rate(requests, seconds)
    assert parse_rate(str(rate)) == rate


@given(st.integers(0, 300), st.integers(0, 40), st.integers(0, 3))
@examples(100, 1_000)
def test_a_range_stands_for_each_of_its_numbers(first: int, more: int, zeros: int) -> None:
    width = max(len(str(first)), zeros) if zeros else 1
    last = first + more
    if zeros and len(str(last)) > width:
        width = len(str(last))
    text = f"gpu-[{first:0{width}}-{last:0{width}}]:8000"
    assert list(expand_ranges(text)) == [f"gpu-{number:0{width}}:8000" for number in range(first, last + 1)]


def test_versions_are_ordered_by_their_numbers() -> None:
    texts = ["1.9", "1.10", "1.10.1", "2.0", "10.0"]
    assert sorted(texts, key=Version.parse) == texts
