from __future__ import annotations

from random import Random

import pytest

from lbgen.agent.readings import Reading
from lbgen.agent.weights import ENOUGH_S, LEAST, Pool, Verdict


def fed(pool: Pool, readings: dict[str, Reading], seconds: int = 60, begin: int = 0) -> float:
    """Feed each server the same reading once a second, tokens counted up; return the time."""
    for now in range(begin, begin + seconds):
        for name, one in readings.items():
            made = None if one.generated is None else one.generated * now
            pool.gauges[name].observe(one._replace(generated=made), now)
    return begin + seconds - 1.0


def percent(pool: Pool, server: str, now: float) -> int:
    verdict = pool.verdict(server, now)
    assert verdict is not None
    return verdict.percent


def cap(pool: Pool, server: str, now: float) -> int | None:
    verdict = pool.verdict(server, now)
    assert verdict is not None
    return verdict.cap


def test_equal_servers_all_have_full_weight() -> None:
    pool = Pool(("a", "b"), 0.95)
    random = Random(1)
    made = dict.fromkeys(pool.gauges, 0)
    for now in range(200):
        for name, gauge in pool.gauges.items():
            running = random.randint(20, 40)
            made[name] += 100 * running
            gauge.observe(Reading(running, 0, running / 100 * random.uniform(0.9, 1.1), made[name]), now)
        assert {percent(pool, name, now) for name in ("a", "b")} == {100}


def test_a_server_with_a_third_of_the_cache_gets_a_third() -> None:
    pool = Pool(("big", "small"), 0.95)
    now = fed(pool, {"big": Reading(30, 0, 0.3), "small": Reading(10, 0, 0.3)})
    assert pool.verdict("big", now) == Verdict(100, 101)
    assert 31 <= percent(pool, "small", now) <= 35
    assert cap(pool, "small", now) == 35, "95 % of 33 and a third, a twentieth more, rounded up, and one"


def test_no_weight_rests_on_a_few_looks_but_caps_do() -> None:
    pool = Pool(("big", "small"), 0.95)
    now = fed(pool, {"big": Reading(30, 0, 0.3), "small": Reading(10, 0, 0.3)}, int(ENOUGH_S) - 2)
    assert pool.verdict("small", now) == Verdict(100, 35)


def test_the_load_alone_moves_nothing() -> None:
    """What is nearly idle looks as large as what is nearly full: no herd runs to the emptier one."""
    pool = Pool(("busy", "idle"), 0.95)
    now = fed(pool, {"busy": Reading(90, 0, 0.9), "idle": Reading(10, 0, 0.1)})
    assert pool.verdict("busy", now) == pool.verdict("idle", now) == Verdict(100, 101)


def test_half_the_speed_has_a_quarter_of_the_weight() -> None:
    pool = Pool(("fast", "slow"), 0.95)
    now = fed(pool, {"fast": Reading(20, 0, 0.2, 2000), "slow": Reading(20, 0, 0.2, 1000)}, 120)
    assert percent(pool, "fast", now) == 100
    assert 23 <= percent(pool, "slow", now) <= 27


def test_speeds_that_differ_little_are_alike_until_they_differ_much() -> None:
    pool = Pool(("a", "b"), 0.95)
    assert (
        percent(pool, "b", fed(pool, {"a": Reading(20, 0, 0.2, 2000), "b": Reading(20, 0, 0.2, 1600)})) == 100
    )


def test_no_server_that_works_is_starved() -> None:
    pool = Pool(("fast", "slow"), 0.95)
    now = fed(pool, {"fast": Reading(20, 0, 0.2, 2000), "slow": Reading(20, 0, 0.2, 10)}, 120)
    assert percent(pool, "slow", now) == LEAST


def test_drain_above_says_how_full_a_cache_may_become() -> None:
    pool = Pool(("a",), 0.5)
    assert cap(pool, "a", fed(pool, {"a": Reading(40, 0, 0.4)})) == 54


def test_several_balancers_share_the_room() -> None:
    pool = Pool(("a",), 0.95, balancers=4)
    assert cap(pool, "a", fed(pool, {"a": Reading(30, 0, 0.3)})) == 26


def test_an_engine_that_lets_requests_wait_tells_its_limit() -> None:
    pool = Pool(("a",), 0.95)
    now = fed(pool, {"a": Reading(16, 9, 0.1)})
    assert cap(pool, "a", now) == 18, "not what its cache would hold"


def test_a_request_that_waits_for_the_next_step_is_no_limit() -> None:
    pool = Pool(("a",), 0.95)
    for now in range(100):
        pool.gauges["a"].observe(Reading(5 + now % 7, now % 2, None), now)
    assert cap(pool, "a", 99) is None


def test_an_engine_that_computes_prompts_far_below_its_peak_is_not_full() -> None:
    pool = Pool(("a",), 0.95)
    now = fed(pool, {"a": Reading(50, 0, None)}, 5)
    now = fed(pool, {"a": Reading(20, 3, None)}, 5, begin=5)
    assert cap(pool, "a", now) is None


def test_an_engine_that_computes_prompts_with_places_free_is_not_full() -> None:
    """vLLM 0.32 with 8 places, seen: 5 run and 3 wait for seconds, then more and more of them run."""
    pool = Pool(("a",), 0.95)
    for now in range(60):
        running = 3 + now // 10 % 6
        pool.gauges["a"].observe(Reading(running, 8 - running, 0.04), now)
        assert cap(pool, "a", now) is None, f"{running} of 8 places are taken"


def test_a_limit_that_was_found_too_low_is_given_up_when_more_run() -> None:
    pool = Pool(("a",), 0.95)
    fed(pool, {"a": Reading(5, 3, None)}, 20)
    assert cap(pool, "a", 19) == 7
    now = fed(pool, {"a": Reading(7, 1, None)}, 2, begin=20)
    assert cap(pool, "a", now) == 9


def test_one_place_that_is_empty_between_two_steps_does_not_hide_a_full_engine() -> None:
    pool = Pool(("a",), 0.95)
    for now in range(30):
        pool.gauges["a"].observe(Reading(7 if now % 5 == 0 else 8, 4, None), now)
    assert cap(pool, "a", 29) == 10


def test_a_counter_that_jumps_makes_no_server_the_only_fast_one() -> None:
    pool = Pool(("a", "liar"), 0.95)
    now = fed(pool, {"a": Reading(20, 0, 0.2, 2000), "liar": Reading(20, 0, 0.2, 1e14)}, 60)
    assert percent(pool, "a", now) == 100


def test_a_limit_grows_when_it_is_reached_and_nobody_waits() -> None:
    pool = Pool(("a",), 0.95)
    fed(pool, {"a": Reading(100, 5, None)}, 20)
    assert cap(pool, "a", 19) == 106
    for now in range(20, 60):
        allowed = cap(pool, "a", now)
        assert allowed is not None
        pool.gauges["a"].observe(Reading(min(allowed, 200), 0, None), now)
    assert cap(pool, "a", 60) == 211


def test_where_no_cache_is_known_limits_are_compared() -> None:
    pool = Pool(("big", "small"), 0.95)
    now = fed(pool, {"big": Reading(32, 5, None), "small": Reading(8, 5, None)})
    assert percent(pool, "big", now) == 100
    assert percent(pool, "small", now) == 25


def test_before_its_first_reading_nothing_is_said_of_a_server() -> None:
    pool = Pool(("a", "b"), 0.95)
    now = fed(pool, {"a": Reading(30, 0, 0.3)})
    assert pool.verdict("b", now) is None


def test_what_is_known_stays_while_an_engine_is_silent() -> None:
    pool = Pool(("big", "small"), 0.95)
    now = fed(pool, {"big": Reading(30, 0, 0.3), "small": Reading(10, 0, 0.3)})
    before = pool.verdict("small", now)
    fed(pool, {"big": Reading(30, 0, 0.3)}, 600, begin=60)
    assert pool.verdict("small", 660) == before


@pytest.mark.parametrize("gap", [1, 300])
def test_an_engine_started_anew_has_no_negative_speed(gap: int) -> None:
    pool = Pool(("a", "b"), 0.95)
    both = {"a": Reading(20, 0, 0.2, 1000), "b": Reading(20, 0, 0.2, 1000)}
    now = fed(pool, both, 120)
    pool.gauges["b"].observe(Reading(0, 0, 0.0, 0), now + gap)
    pool.gauges["b"].observe(Reading(20, 0, 0.2, 1000), now + gap + 1)
    pool.gauges["a"].observe(Reading(20, 0, 0.2, 1000 * (now + gap + 1)), now + gap + 1)
    assert pool.verdict("b", now + gap + 2) == Verdict(100, 101)


def test_garbage_and_idleness_say_nothing() -> None:
    pool = Pool(("a",), 0.95)
    for now, reading in enumerate((Reading(None, None, None), Reading(0, 0, 0.0, 0), Reading(0, 3, 0.0))):
        pool.gauges["a"].observe(reading, now)
        assert pool.verdict("a", now) == Verdict(100, None)


def test_two_readings_at_the_same_time_do_no_harm() -> None:
    pool = Pool(("a",), 0.95)
    for _ in range(3):
        pool.gauges["a"].observe(Reading(30, 0, 0.3, 500), 7.0)
    assert pool.verdict("a", 7.0) == Verdict(100, 101)


def test_an_unknown_server() -> None:
    with pytest.raises(KeyError):
        Pool(("a",), 0.95).verdict("b", 0)


def test_how_often_a_server_is_looked_at_does_not_change_its_speed() -> None:
    pool = Pool(("often", "seldom"), 0.95)
    for now in range(240):
        for name, every in (("often", 1), ("seldom", 4)):
            if now % every == 0:
                pool.gauges[name].observe(Reading(20, 0, 0.5, 1_000.0 * now), now)
    assert {percent(pool, name, 239.0) for name in pool.gauges} == {100}
