"""How balancers choose: what is known of NGINX and HAProxy, strategy by strategy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.simulate.load.request import Request
from lbgen.simulate.runs.balancer import chooser_of
from lbgen.simulate.servers.pool import setup_of
from lbgen.simulate.servers.setup import Setup
from lbgen.strategies.registry import STRATEGIES
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from lbgen.vocabulary import Chooser

IDEAL = "ideal"
FLAVOURS = [(name, flavour) for name in STRATEGIES for flavour in (IDEAL, *TARGETS)]


@dataclass
class Seen:
    index: int
    weight: int = 1
    in_flight: int = 0
    cap: int | None = None
    available: bool = True

    @property
    def address(self) -> str:
        return f"gpu-{self.index}"


def chooser(name: str, flavour: str = "ideal", **parameters: Any) -> Chooser:
    target = None if flavour == IDEAL else flavour
    return chooser_of(Setup((), name, parameters, target))


def choices(
    made: Chooser, servers: list[Seen], count: int, *, hold: bool = False, **values: Any
) -> list[int]:
    dice, chosen = Random(1), []
    for number in range(count):
        request = Request(0.0, 1, 1, **{name: value(number) for name, value in values.items()})
        index = made.choose(request, servers, dice)
        assert index is not None
        chosen.append(index)
        servers[index].in_flight += hold
        if not hold and hasattr(made, "left"):
            made.left(request)
    return chosen


@pytest.mark.parametrize(("name", "flavour"), FLAVOURS)
def test_nobody_chooses_a_server_that_is_out(name: str, flavour: str) -> None:
    servers = [Seen(0, available=False), Seen(1), Seen(2, available=False), Seen(3)]
    chosen = choices(
        chooser(name, flavour), servers, 200, hold=True, session=lambda n: f"s{n}", prefix=lambda n: f"p{n}"
    )
    assert set(chosen) <= {1, 3}
    out = [Seen(0, available=False), Seen(1, available=False)]
    assert chooser(name, flavour).choose(Request(0.0, 1, 1, (), "s", "p"), out, Random(1)) is None


@pytest.mark.parametrize(("name", "flavour"), FLAVOURS)
def test_full_servers_are_left_alone_or_waited_for(name: str, flavour: str) -> None:
    """HAProxy's hash waits for its server; everybody else passes it over."""
    servers = [Seen(0, cap=1, in_flight=1), Seen(1, cap=1, in_flight=1)]
    chosen = chooser(name, flavour).choose(Request(0.0, 1, 1, (), "s", "p"), servers, Random(1))
    assert chosen is None or (name in {"session", "prefix"} and flavour != "nginx")


@pytest.mark.parametrize("flavour", ["nginx", "haproxy"])
def test_weights_are_spread_smoothly(flavour: str) -> None:
    servers = [Seen(0, weight=5), Seen(1), Seen(2)]
    chosen = choices(chooser("round_robin", flavour), servers, 7)
    assert chosen == [0, 0, 1, 0, 2, 0, 0]


def test_round_robin_passes_over_full_servers() -> None:
    servers = [Seen(0), Seen(1, cap=2, in_flight=2), Seen(2)]
    assert Counter(choices(chooser("round_robin", "nginx"), servers, 10)) == {0: 5, 2: 5}


@pytest.mark.parametrize("flavour", ["nginx", "haproxy"])
def test_least_conn_fills_by_weight(flavour: str) -> None:
    servers = [Seen(0, weight=3), Seen(1), Seen(2)]
    choices(chooser("least_conn", flavour), servers, 50, hold=True)
    assert [server.in_flight for server in servers] == [30, 10, 10]


@pytest.mark.parametrize("flavour", ["nginx", "haproxy"])
def test_least_conn_takes_turns_among_equals(flavour: str) -> None:
    servers = [Seen(index) for index in range(4)]
    assert sorted(choices(chooser("least_conn", flavour), servers, 4)) == [0, 1, 2, 3]


def test_haproxy_prefers_an_idle_server_to_a_heavier_one() -> None:
    servers = [Seen(0, weight=100, in_flight=1), Seen(1)]
    assert chooser("least_conn", "haproxy").choose(Request(0.0, 1, 1), servers, Random(1)) == 1


@pytest.mark.parametrize("flavour", ["nginx", "haproxy"])
def test_two_draws_find_the_emptier_server(flavour: str) -> None:
    """NGINX draws two different servers, so of two it always takes the better; HAProxy may draw one twice."""
    servers = [Seen(0, in_flight=5), Seen(1)]
    share = Counter(choices(chooser("random_two", flavour), servers, 2_000))[1] / 2_000
    assert share == (1.0 if flavour == "nginx" else pytest.approx(0.75, abs=0.03))


@pytest.mark.parametrize("flavour", ["nginx", "haproxy"])
def test_draws_follow_the_weights(flavour: str) -> None:
    servers = [Seen(0, weight=6), Seen(1), Seen(2)]
    choices(chooser("random_two", flavour), servers, 800, hold=True)
    assert servers[0].in_flight == pytest.approx(600, abs=25)


@pytest.mark.parametrize("name", ["session", "prefix"])
@pytest.mark.parametrize("flavour", [IDEAL, *TARGETS])
def test_a_key_keeps_its_server_when_another_one_goes(name: str, flavour: str) -> None:
    servers = [Seen(index) for index in range(5)]
    more = {"load_factor": 100.0, "key": "system_prompt"} if name == "prefix" else {}
    made = chooser(name, flavour, **more)
    keys: dict[str, Any] = {name: lambda number: f"key {number % 50}"}
    before = choices(made, servers, 50, **keys)
    assert choices(made, servers, 50, **keys) == before
    assert len(set(before)) == 5
    servers[2].available = False
    after = choices(made, servers, 50, **keys)
    assert all(new == old for new, old in zip(after, before, strict=True) if old != 2)
    assert 2 not in after


def turns(made: Chooser, servers: list[Seen], conversations: list[str], prompt: str = "p") -> list[int]:
    """Return where turns of these conversations go, each answered before the next."""
    dice, chosen = Random(1), []
    for conversation in conversations:
        request = Request(0.0, 1, 1, prefix=prompt)
        request.conversation = conversation
        index = made.choose(request, servers, dice)
        assert index is not None
        chosen.append(index)
        made.left(request)  # type: ignore[attr-defined]  # this one counts them
    return chosen


@pytest.mark.parametrize("way", ["script", "sticky", "hash"])
def test_nginx_keeps_conversations_and_spreads_those_of_one_prompt(way: str) -> None:
    servers = [Seen(index) for index in range(4)]
    made = chooser("prefix", "nginx", way=way)
    names = [f"agent {number}" for number in range(200)]
    dice = Random(1)

    def homes() -> list[int | None]:
        found = []
        for name in names:
            request = Request(0.0, 1, 1, prefix="everybody's")
            request.conversation = name
            found.append(made.choose(request, servers, dice))
            if way == "script":
                made.left(request)  # type: ignore[attr-defined]  # this one counts them
        return found

    first = homes()
    assert homes() == first
    assert max(first.count(index) for index in range(4)) <= 85


def test_a_conversation_stays_where_it_began() -> None:
    servers = [Seen(index) for index in range(4)]
    made = chooser("prefix", "haproxy")
    names = [f"c{number}" for number in range(12)]
    begun = turns(made, servers, names)
    assert turns(made, servers, names) == begun
    # All share a prompt, which is in every cache soon.
    assert Counter(turns(made, servers, [f"d{number}" for number in range(32)])) == {0: 8, 1: 8, 2: 8, 3: 8}


def test_questions_go_to_the_home_of_their_prompt() -> None:
    servers = [Seen(index) for index in range(4)]
    made = chooser("prefix", "haproxy")
    rounds = [
        [turns(made, servers, [f"q{tenant} {number}"], f"t{tenant}")[0] for tenant in range(8)]
        for number in range(5)
    ]
    assert rounds[1:] == rounds[1:2] * 4
    assert len(set(rounds[1])) == 4


def test_prompts_alone_decide_where_that_is_asked_for() -> None:
    servers = [Seen(index) for index in range(4)]
    made = chooser("prefix", "haproxy", key="system_prompt")
    assert len(set(turns(made, servers, [f"c{number}" for number in range(60)]))) == 1


def test_a_prompt_with_much_in_flight_is_everybodys() -> None:
    servers = [Seen(index) for index in range(4)]
    made = chooser("prefix", "haproxy", key="system_prompt")
    choices(made, servers, 40, hold=True, prefix=lambda _: "hot")
    assert max(server.in_flight for server in servers) <= 11


def test_agents_that_begin_together_are_spread_from_the_third_one_on() -> None:
    """While nothing is in flight the excess is many requests: it does not hold up the first ones."""
    servers = [Seen(index) for index in range(4)]
    agents = {"prefix": lambda _: "all", "session": lambda number: f"s{number}"}
    choices(chooser("prefix", "haproxy", slack=16), servers, 16, hold=True, **agents)
    assert [server.in_flight for server in servers] == [4] * 4


@pytest.mark.parametrize(("in_flight", "stays"), [(7, True), (12, True), (23, False)])
def test_a_home_lets_go_at_twice_the_excess(in_flight: int, stays: bool) -> None:
    servers = [Seen(index, in_flight=4) for index in range(4)]
    made = chooser("prefix", "haproxy", slack=4)
    [home] = turns(made, servers, ["c"])
    servers[home].in_flight = in_flight
    [now] = turns(made, servers, ["c"])
    assert (now == home) is stays
    assert turns(made, servers, ["c"]) == [now]  # where it moved, its history is


def test_a_prompt_leaves_an_overloaded_home_for_good() -> None:
    servers = [Seen(index, in_flight=4) for index in range(4)]
    made = chooser("prefix", "haproxy", key="system_prompt", slack=4)
    [home] = turns(made, servers, ["q1"])
    servers[home].in_flight = 14
    [moved] = turns(made, servers, ["q2"])
    servers[home].in_flight = 4
    assert moved != home
    assert turns(made, servers, ["q3"]) == [moved]


def test_a_dead_home_spreads_its_conversations() -> None:
    servers = [Seen(index) for index in range(4)]
    made = chooser("prefix", "haproxy")
    names = [f"c{number}" for number in range(80)]
    begun = turns(made, servers, names)
    servers[1].available = False
    after = turns(made, servers, names)
    assert [new for new, old in zip(after, begun, strict=True) if old != 1] == [x for x in begun if x != 1]
    spread = Counter(new for new, old in zip(after, begun, strict=True) if old == 1)
    assert sorted(spread) == [0, 2, 3]
    assert max(spread.values()) - min(spread.values()) <= 1


def test_a_home_may_have_more_where_it_weighs_more() -> None:
    servers = [Seen(0, weight=3, in_flight=12), Seen(1, in_flight=4)]
    made = chooser("prefix", "haproxy", slack=1, load_factor=1.25)
    [home] = turns(made, servers, ["c"])
    assert turns(made, servers, ["c"]) == [home]


def test_what_balancers_do_not_share_is_hashed_by_weight() -> None:
    servers = [Seen(0, weight=128), Seen(1, weight=32)]
    made = chooser("prefix", "haproxy", load_factor=100.0, hashed=True)
    shares = Counter(choices(made, servers, 500, prefix=lambda number: f"p{number}"))
    assert shares[0] > 300


def test_what_has_no_key_is_spread() -> None:
    servers = [Seen(index) for index in range(4)]
    assert Counter(choices(chooser("prefix", "haproxy"), servers, 8)) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_pack_fills_the_first_server_first() -> None:
    servers = [Seen(index, cap=3) for index in range(3)]
    assert choices(chooser("pack", "haproxy"), servers, 7, hold=True) == [0, 0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize(("balancers", "hashed"), [("1", None), ("2", True)])
def test_haproxy_is_simulated_as_it_is_rendered(balancers: str, hashed: bool | None) -> None:
    text = f'balancers: {balancers}\npools: {{chat: {{servers: "gpu-[0-1]:8000"}}}}\n'
    fleet = load([Source("fleet.yaml", text)], environ={}).fleet
    assert fleet is not None
    setup = setup_of(fleet, fleet.pool("chat"), "prefix", "haproxy", ())
    assert setup.parameters.get("hashed") is hashed
