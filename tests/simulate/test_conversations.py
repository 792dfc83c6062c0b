"""Agents and chats: what turns are made of, who waits for whom, and what is shared."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest

from lbgen.problems import LbgenError
from lbgen.simulate.load.named import workload
from lbgen.simulate.load.request import Request
from lbgen.simulate.runs.run import Task, run
from lbgen.simulate.servers.step_times.profiles import PROFILES
from tests.simulate.runs import setup


def turns_of(name: str, count: int, seed: int = 1) -> list[Request]:
    """All requests of a load whose answers come after a second."""
    made = workload(name)
    found = list(made.requests(seed, 1.0, count))
    for request in found:  # grows on the way
        request.finished = request.arrived + 1
        if following := made.follow(request, request.finished):
            found.append(following)
    return found


def by_session(requests: list[Request]) -> dict[str, list[Request]]:
    found: dict[str, list[Request]] = {}
    for request in requests:
        assert request.session is not None
        found.setdefault(request.session, []).append(request)
    return found


@pytest.mark.parametrize(("count", "sessions"), [(768, 64), (770, 65), (7, 1), (240, 20)])
def test_as_many_turns_come_as_were_asked_for(count: int, sessions: int) -> None:
    requests = turns_of("agents:sessions=8", count)
    assert len(requests) == count
    assert len(by_session(requests)) == sessions
    assert max(map(len, by_session(requests).values())) == min(12, count)


def test_at_most_so_many_sessions_are_open_at_a_time() -> None:
    first = list(workload("agents:sessions=8").requests(1, 1.0, 768))
    assert len(first) == 8
    assert all(0 <= one.arrived <= 3 for one in first)


def test_a_turn_sends_the_whole_conversation() -> None:
    for talk in by_session(turns_of("agents:sessions=4,turns=6", 24)).values():
        for before, after in pairwise(talk):
            assert after.parts[: len(before.parts)] == before.parts
            assert [part.role for part in after.parts[len(before.parts) :]] == ["assistant", "user"]
            assert 200 <= after.parts[-1].tokens <= 3000
            assert 40 <= after.output_tokens <= 300
            whole = (before.prompt_tokens + before.output_tokens) // 64
            assert after.chunks[:whole] == before.chunks
            assert after.arrived > before.finished
        assert {sum(part.tokens for part in one.parts) - one.prompt_tokens for one in talk} == {0}


def test_thinking_is_exponential_with_a_mean_of_three_seconds() -> None:
    talks = by_session(turns_of("agents", 6000)).values()
    pauses = [after.arrived - before.finished for talk in talks for before, after in pairwise(talk)]
    assert sum(pauses) / len(pauses) == pytest.approx(3, rel=0.05)
    assert sum(pause > 3 for pause in pauses) / len(pauses) == pytest.approx(0.368, abs=0.02)


def test_sessions_of_a_kind_share_their_system_prompt_and_nothing_else() -> None:
    first = list(workload("agents:sessions=12,systems=3").requests(1, 1.0, 144))
    assert {one.prefix for one in first} == {"k0", "k1", "k2"}
    assert len({one.conversation for one in first}) == 12
    for one in first:
        for other in first:
            if one is not other:
                shared = len(set(one.chunks) & set(other.chunks))
                assert shared == (4500 // 64 if one.prefix == other.prefix else 0)


def test_kinds_come_in_no_order_that_balancers_could_follow() -> None:
    kinds = [one.prefix for one in workload("agents:sessions=256,systems=4").requests(1, 1.0, 3072)]
    by_turn = [{kinds[place] for place in range(number, 256, 8)} for number in range(8)]
    assert all(len(some) == 4 for some in by_turn)
    assert min(kinds.count(kind) for kind in set(kinds)) > 40
    again = [one.prefix for one in workload("agents:sessions=256,systems=4").requests(1, 1.0, 3072)]
    assert again == kinds


def test_compaction_replaces_the_history_and_with_it_what_names_the_conversation() -> None:
    (talk,) = by_session(turns_of("agents:sessions=1,turns=40,compact_tokens=12000", 40)).values()
    assert max(one.prompt_tokens for one in talk) <= 12_000 + 3_000 + 300 + 8
    assert len({one.conversation for one in talk}) > 3
    moved = [after for before, after in pairwise(talk) if after.conversation != before.conversation]
    assert all(one.prompt_tokens <= 4500 + 3000 and one.chunks[:70] == talk[0].chunks[:70] for one in moved)
    (named,) = by_session(turns_of("agents:sessions=1,turns=40,compact_tokens=12000,named=1", 40)).values()
    assert {one.conversation for one in named} == {"s0"}
    assert all(one.named for one in named)


def test_a_session_that_fails_makes_room_for_the_next() -> None:
    made = workload("agents:sessions=1,turns=3")
    (request,) = made.requests(1, 1.0, 6)
    following = made.follow(request, 10.0)  # it was never finished
    assert following is not None
    assert following.session == "s1"
    assert following.arrived >= 11


def test_a_hot_tenant_gets_its_share_on_top() -> None:
    requests = list(workload("tenants:hot=0.8").requests(1, 1.0, 4000))
    assert len({one.prefix for one in requests}) == 24
    share = sum(one.prefix == "p0" for one in requests) / len(requests)
    assert share == pytest.approx(0.8 + 0.2 / 24, abs=0.02)
    assert all(len(one.chunks) == 750 // 64 for one in requests)


def test_agents_are_alike_in_other_processes_and_the_servers_decide_their_rate() -> None:
    task = Task(setup("least_conn", profile=PROFILES["h100-8b"]), workload("agents:sessions=8"), 1.0, 96, 1)
    first, again = run(task), run(pickle.loads(pickle.dumps(task)))
    assert first == again
    assert first.ok == 96
    assert run(task._replace(rate_per_s=100.0)).duration_s == first.duration_s


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents:results=0-5", "results cannot be 0-5"),
        ("agents:results=9-2", "results cannot be 9-2"),
        ("agents:output=many", "output cannot be many"),
        ("agents:results=1-1e12", "results cannot be"),
        ("agents:tools=3", "write one of sessions"),
        ("tenants:hot=x", "is not a number"),
    ],
)
def test_what_cannot_be_set(text: str, words: str) -> None:
    with pytest.raises(LbgenError, match=words):
        workload(text)
