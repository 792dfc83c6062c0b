"""One server: the engine that leaps against the one that takes every step."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from lbgen.simulate.load.request import Request
from lbgen.simulate.servers.engine import Engine
from lbgen.simulate.servers.keyed import KeyedEngine, engine_for
from lbgen.simulate.servers.memory import MemoryEngine
from lbgen.simulate.servers.prefix_cache import BoundedCache
from lbgen.simulate.servers.step_times.profiles import PROFILES, Profile
from tests.simulate.reference import run

SEED = PROFILES["seed"]
SMALL = Profile(
    "small", "", step=0.007, per_request=5e-5, per_kv_token=1e-6, per_prefill_token=1e-4, per_attention=1e-8,
    slots=6, batch_tokens=64, kv_tokens=1200,
)  # fmt: skip


def drive(engine: Engine, requests: list[Request]) -> list[Request]:
    """Send the requests at their times; return them in order of completion."""
    finished = []
    for request in requests:
        finished += engine.advance(request.arrived)
        engine.submit(request, request.arrived)
    finished += engine.advance(1e9)
    return finished


def load(seed: int, count: int, gap: float, prompt: int, output: int) -> list[Request]:
    dice, now, requests = Random(seed), 0.0, []
    for _ in range(count):
        now += dice.expovariate(1 / gap)
        requests.append(Request(now, dice.randint(1, prompt), dice.randint(1, output)))
    return requests


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "profile", [SEED.with_slots(3), SEED, SMALL, PROFILES["a100-8b"]], ids=lambda p: p.name
)
def test_leaping_is_the_same_as_stepping(profile: Profile, seed: int) -> None:
    requests = load(seed, 80, gap=0.12, prompt=300, output=120)
    expected = run(profile, [(r.arrived, r.prompt_tokens, r.output_tokens) for r in requests])
    finished = drive(engine_for(profile), requests)
    assert len(finished) == len(requests)
    for request, fate in zip(requests, expected, strict=True):
        assert request.admitted == pytest.approx(fate.admitted, abs=1e-9)
        assert request.first == pytest.approx(fate.first, abs=1e-9)
        assert request.finished == pytest.approx(fate.finished, abs=1e-9)


def test_the_comparison_covers_preemption_and_long_prompts() -> None:
    engine = MemoryEngine(SMALL)
    drive(engine, load(0, 80, gap=0.12, prompt=300, output=120))
    assert engine.preemptions > 5


def test_the_batch_never_holds_more_than_the_slots_and_the_memory() -> None:
    engine = MemoryEngine(SMALL)
    for request in load(3, 200, gap=0.05, prompt=300, output=200):
        engine.advance(request.arrived)
        engine.submit(request, request.arrived)
        assert engine.running <= SMALL.slots
        assert 0 <= engine.kv_usage <= 1
    engine.advance(1e9)
    assert (engine.running, len(engine.waiting), engine.kv_usage) == (0, 0, 0)


def test_one_request_alone_takes_its_steps() -> None:
    engine = Engine(SEED)
    request = Request(5.0, 0, 100)
    engine.submit(request, 5.0)
    assert engine.advance(5.7) == []
    assert engine.produced(request, 5.7) == 96
    assert engine.advance(10) == [request]
    assert request.first == pytest.approx(5.00725)
    assert request.finished == pytest.approx(5.725)


def test_a_prompt_is_computed_in_pieces_within_the_budget() -> None:
    engine = MemoryEngine(SMALL._replace(per_attention=0, per_kv_token=0, per_request=0))
    request = Request(0.0, 160, 1)
    drive(engine, [request])
    assert request.first == pytest.approx(3 * 0.007 + 160e-4)
    assert request.finished == request.first


def test_a_known_prefix_is_not_computed_again() -> None:
    profile = SMALL._replace(kv_tokens=4096, batch_tokens=4096)
    engine = MemoryEngine(profile, chunk_tokens=64)
    cold, warm = Request(0.0, 200, 4, ("a", "b", "c")), Request(10.0, 200, 4, ("a", "b", "c"))
    drive(engine, [cold, warm])
    assert (cold.hits, warm.hits) == (0, 192)
    assert warm.first - warm.arrived < (cold.first - cold.arrived) / 2


def test_the_prefix_used_longest_ago_goes_first_and_its_tail_before_its_head() -> None:
    profile = SMALL._replace(kv_tokens=64 * 6, batch_tokens=4096)
    engine = MemoryEngine(profile, chunk_tokens=64)
    requests = [
        Request(0.0, 190, 2, ("a1", "a2", "a3")),
        Request(10.0, 190, 2, ("b1", "b2", "b3")),
        Request(20.0, 190, 2, ("c1", "c2", "c3")),  # needs room: a's tail goes
        Request(30.0, 190, 2, ("b1", "b2", "b3")),
        Request(40.0, 190, 2, ("a1", "a2", "a3")),
    ]
    drive(engine, requests)
    assert [request.hits for request in requests] == [0, 0, 0, 128, 64]


def test_questions_of_ones_own_and_their_answers_push_out_what_others_share() -> None:
    profile = SMALL._replace(kv_tokens=64 * 8, batch_tokens=4096)
    engine = MemoryEngine(profile, chunk_tokens=64)
    shared = ("system 1", "system 2")
    requests = [
        Request(0.0, 192, 65, shared),  # leaves four chunks, of which nobody will ask for two
        Request(10.0, 192, 65, shared),
        Request(20.0, 192, 65, ("other 1", "other 2")),
        Request(30.0, 192, 65, ("third 1", "third 2")),  # needs room: the oldest goes, shared or not
        Request(40.0, 192, 65, shared),
    ]
    drive(engine, requests)
    assert [request.hits for request in requests] == [0, 128, 0, 0, 0]


def test_a_request_larger_than_the_memory_is_cut() -> None:
    engine = MemoryEngine(SMALL)
    request = Request(0.0, 100, 100_000)
    assert drive(engine, [request]) == [request]
    assert request.output_tokens == 1100


@pytest.mark.parametrize("profile", [SEED.with_slots(2), SMALL], ids=lambda p: p.name)
def test_who_leaves_makes_room_at_the_next_step(profile: Profile) -> None:
    engine = engine_for(profile.with_slots(2))
    first, second, third = (Request(0.0, 10, 1000) for _ in range(3))
    for request in (first, second, third):
        engine.submit(request, 0.0)
    engine.advance(1.0)
    assert third.admitted < 0
    engine.cancel(first, 1.0)
    engine.advance(1.1)
    assert 1.0 <= third.admitted < 1.03
    engine.cancel(third, 1.1)
    engine.cancel(second, 1.1)
    assert engine.advance(50.0) == []
    assert engine.running == 0


def test_who_leaves_the_queue_never_runs() -> None:
    engine = Engine(SEED.with_slots(1))
    first, second = Request(0.0, 0, 10), Request(0.0, 0, 10)
    engine.submit(first, 0.0)
    engine.submit(second, 0.0)
    engine.cancel(second, 0.01)
    assert engine.advance(10.0) == [first]
    assert second.admitted < 0


def test_a_server_that_dies_loses_everything() -> None:
    for profile in (SEED, SMALL):
        engine = engine_for(profile)
        requests = [Request(0.0, 10, 100) for _ in range(9)]
        for request in requests:
            engine.submit(request, 0.0)
        engine.advance(0.3)
        assert set(engine.empty()) == set(requests)
        assert engine.due == float("inf")
        again = Request(1.0, 10, 10)
        engine.submit(again, 1.0)
        assert engine.advance(5.0) == [again]


def test_by_keys_every_first_and_last_token_is_an_event() -> None:
    for profile in (SEED, SMALL):
        engine = KeyedEngine(profile)
        engine.submit(0.0, 1, 20, 5, b"x" * 80)
        engine.submit(0.0, 2, 20, 9, b"y" * 80)
        happened, now = [], 0.0
        while (due := engine.next_event()) is not None:
            assert due >= now
            now = due
            happened += engine.advance(now)
        assert sorted(happened) == [(1, False), (1, True), (2, False), (2, True)]
        assert [key for key, ended in happened if ended] == [1, 2]


def test_by_keys_tokens_are_counted_as_they_come() -> None:
    engine = KeyedEngine(SEED)
    engine.submit(0.0, 1, 20, 100, b"")
    counts = []
    for tick in range(1, 80):
        engine.advance(tick * 0.01)
        counts.append(engine.produced(1))
    assert counts[:3] == [1, 2, 4]
    assert counts == sorted(counts[:72]) + [0] * 7
    engine.cancel(0.9, 1)


def test_a_bounded_cache_forgets_what_was_not_asked_for_longest_tail_first() -> None:
    cache = BoundedCache(4)
    for prompt in (("a", "b", "c"), ("d", "e")):
        cache.hold(prompt)
        cache.touch(prompt)
    assert cache.match(("a", "b", "c"), 9) == 2  # the tail went, though somebody uses it
    cache.release(("a", "b", "c"))
    assert (cache.size, cache.idle) == (4, 2)
    cache.touch(("a",))
    cache.hold(("f",))
    cache.touch(("f",))
    assert [cache.match((chunk,), 1) for chunk in "abdef"] == [1, 0, 1, 1, 1]
    cache.drop()
    assert cache.match(("a",), 1) == 0


def test_an_engine_with_a_small_cache_computes_what_it_forgot() -> None:
    profile = PROFILES["plain-prompts"]._replace(cache_tokens=1024)
    hits = []
    for prompts in (("a", "a"), ("a", "b", "c", "a")):
        engine, now = MemoryEngine(profile, chunk_tokens=64), 0.0
        for name in prompts:
            request = Request(now, 600, 5, tuple((name, number) for number in range(9)))
            engine.submit(request, now)
            while engine.due < inf:
                now = engine.due
                engine.advance(now)
        hits.append(request.hits)
    assert hits == [9 * 64, 0]
