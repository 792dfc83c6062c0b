from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.cli.operate.plan_words import gathered, summary
from lbgen.deploy.planning.plan import make_plan
from lbgen.deploy.runtime.inventory_diff import file_changes
from lbgen.files import write_files
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.model import Pool, State, StrategyChoice
from lbgen.render import RenderedFile, render
from lbgen.targets.common.service import DROP_IN
from lbgen.targets.registry import TARGETS as BY_NAME
from tests import factory

TARGETS = tuple(BY_NAME)


def chat(**values: object) -> Pool:
    return factory.pool(servers=factory.servers("gpu-[0-4]:8000", **values))


def words(target: str, folder: Path, old: Pool, new: Pool) -> list[str]:
    write_files(folder, render(factory.fleet(old), target))
    plan = make_plan(target, folder, render(factory.fleet(new), target))
    return [summary(change).removeprefix("pool chat: ") for change in plan.changes]


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_fleet_changes_nothing(target: str, tmp_path: Path) -> None:
    assert words(target, tmp_path, chat(), chat()) == []
    assert make_plan(target, tmp_path, render(factory.fleet(chat()), target)).is_empty


@pytest.mark.parametrize("target", TARGETS)
def test_servers_come_and_go(target: str, tmp_path: Path) -> None:
    fewer = chat()._replace(servers=chat().servers[1:])
    first = "gpu-0:8000" if target == "nginx" else "gpu-0"
    assert words(target, tmp_path, chat(), fewer) == [f"- {first}"]
    assert words(target, tmp_path, fewer, chat()) == [f"+ {first}"]


@pytest.mark.parametrize("target", TARGETS)
def test_weight_and_cap_and_state(target: str, tmp_path: Path) -> None:
    heavy = chat(weight=4, max_in_flight=7)
    text = " ".join(words(target, tmp_path, chat(), heavy))
    assert "weight" in text
    # Envoy bounds the pool, by a line of its own.
    assert ("max_in_flight none → 7" in text) is (target != "envoy")
    text = " ".join(words(target, tmp_path, chat(), chat(state=State.DOWN)))
    assert "state up → down" in text


@pytest.mark.parametrize("target", TARGETS)
def test_a_weight_that_equals_another_number_is_a_weight_alone(target: str, tmp_path: Path) -> None:
    """HAProxy's checks have 'rise 2' and 'fall 3'."""
    found = words(target, tmp_path, chat(), chat(weight=2, max_in_flight=3))
    assert [word for word in found if "rise" in word or "fall" in word] == []


@pytest.mark.parametrize("target", TARGETS)
def test_strategy(target: str, tmp_path: Path) -> None:
    text = words(target, tmp_path, chat(), chat()._replace(strategy=StrategyChoice("round_robin")))
    assert any(line.startswith("strategy ") for line in text), text


@pytest.mark.parametrize("target", TARGETS)
def test_losses_are_counted(target: str, tmp_path: Path) -> None:
    write_files(tmp_path, render(factory.fleet(chat()), target))
    two_left = chat()._replace(servers=chat().servers[:2])
    plan = make_plan(target, tmp_path, render(factory.fleet(two_left), target))
    assert [(loss.lost, loss.had) for loss in plan.losses] == [(3, 5)]


@pytest.mark.parametrize("target", TARGETS)
def test_a_pool_with_another_name_loses_nothing(target: str, tmp_path: Path) -> None:
    def rendered(name: str) -> list[RenderedFile]:
        text = f"pools: {{{name}: {{servers: '10.0.0.[1-4]:8000'}}}}"
        fleet = load([Source("f", text)], environ={}, targets=(target,)).fleet
        assert fleet is not None
        return list(render(fleet, target))

    write_files(tmp_path, rendered("chat-a"))
    assert make_plan(target, tmp_path, rendered("chat_a")).losses == ()


@pytest.mark.parametrize("target", TARGETS)
def test_an_edit_by_hand_changes_the_digest_and_is_shown(target: str, tmp_path: Path) -> None:
    files = render(factory.fleet(chat()), target)
    write_files(tmp_path, files)
    before = make_plan(target, tmp_path, files)
    main = tmp_path / files[0].path
    main.write_text(main.read_text() + "# edited\n")
    after = make_plan(target, tmp_path, files)
    assert before.digest != after.digest
    assert "-# edited" in after.diff()
    assert not after.is_empty


@pytest.mark.parametrize("target", TARGETS)
def test_a_first_plan_names_the_new_pools(target: str, tmp_path: Path) -> None:
    plan = make_plan(target, tmp_path / "nowhere", render(factory.fleet(chat()), target))
    assert any("new pool with 5 servers" in summary(change) for change in plan.changes)
    assert plan.reload == (target != "envoy"), "Envoy is started with its files, and watches them"


def test_a_file_for_the_service_manager_asks_for_no_reload(tmp_path: Path) -> None:
    files = render(factory.fleet(chat()), "haproxy")
    write_files(tmp_path, [file for file in files if file.path != DROP_IN])
    plan = make_plan("haproxy", tmp_path, files)
    assert [change.effect for change in plan.changes] == ["restart"]
    assert not plan.reload


def test_haproxy_takes_weights_over_its_socket(tmp_path: Path) -> None:
    write_files(tmp_path, render(factory.fleet(chat()), "haproxy"))
    heavier = factory.fleet(chat(weight=4), digest="1" * 12)
    plan = make_plan("haproxy", tmp_path, render(heavier, "haproxy"), socket=True)
    assert plan.changes
    assert not plan.reload, "that it is another fleet is no change of its own"


@pytest.mark.parametrize("target", TARGETS)
def test_the_header_of_a_side_file_is_no_change(target: str, tmp_path: Path) -> None:
    write_files(tmp_path, render(factory.fleet(chat()), target))
    plan = make_plan(target, tmp_path, render(factory.fleet(chat(), digest="1" * 12), target))
    assert plan.changes == ()
    assert not plan.is_empty


TEXTS = """
upstream a {|upstream b {|}|;|server;|server a|server a weight=|server a weight=x max_conns=$m|server b down
least_conn;|server {|# listener a|listen 80;|listen|location / {|location = /x {|return 200;|²
backend a|backend|frontend a|listen a|defaults|    server s a:1 weight "${W}" maxconn ${M}|    server s
    server s a:1 weight 0|    server t a:2 disabled|    default-server|    default-server weight x|    balance
    bind|    bind :80|    option httpchk
"""
LINES = st.lists(st.sampled_from(TEXTS.strip("\n").replace("\n", "|").split("|")), max_size=12)


@pytest.mark.parametrize("target", TARGETS)
@given(old=LINES, new=LINES)
def test_whatever_others_wrote_is_read(target: str, old: list[str], new: list[str]) -> None:
    before, after = (BY_NAME[target].read("\n".join(lines)) for lines in (old, new))
    told = list(file_changes(before, after, socket=True))
    assert bool(told) == (before != after)
    assert list(gathered(told)) or not told
