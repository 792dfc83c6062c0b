from __future__ import annotations

from random import Random

from lbgen.agent.readings import Reading
from lbgen.agent.weights import Gauge, Pool


def fed(pool: Pool, usages: dict[str, tuple[float, float]], seconds: int = 60) -> float:
    """Feed each server the same (running, usage) once a second; return the time."""
    for now in range(seconds):
        for name, (running, usage) in usages.items():
            pool.gauges[name].observe(Reading(running, 0, usage), now)
    return seconds - 1.0


def test_equal_servers_all_have_full_weight() -> None:
    pool = Pool(("a", "b"), 0.95)
    random = Random(1)
    for now in range(200):
        for gauge in pool.gauges.values():
            running = random.randint(20, 40)
            gauge.observe(Reading(running, 0, running / 100 * random.uniform(0.9, 1.1)), now)
        assert {pool.weight(name, now) for name in ("a", "b")} == {100}


def test_a_server_with_a_third_of_the_cache_gets_a_third() -> None:
    pool = Pool(("big", "small"), 0.95)
    now = fed(pool, {"big": (30, 0.3), "small": (10, 0.3)})
    assert pool.weight("big", now) == 100
    assert 30 <= pool.weight("small", now) <= 36


def test_the_load_alone_moves_no_weight() -> None:
    """What is nearly idle looks as large as what is nearly full: no herd runs to the emptier one."""
    pool = Pool(("busy", "idle"), 0.95)
    now = fed(pool, {"busy": (90, 0.9), "idle": (10, 0.1)})
    assert pool.weight("busy", now) == pool.weight("idle", now) == 100


def test_a_full_server_is_drained_while_others_have_room_and_comes_back_later() -> None:
    pool = Pool(("full", "roomy"), 0.95)
    now = fed(pool, {"full": (90, 0.97), "roomy": (50, 0.5)})
    assert pool.weight("full", now) == 0
    pool.gauges["full"].observe(Reading(80, 0, 0.93), now)
    assert pool.weight("full", now) == 0, "just below the limit is not back: no flapping"
    pool.gauges["full"].observe(Reading(70, 0, 0.80), now)
    assert pool.weight("full", now) > 0


def test_nobody_is_drained_when_all_are_full() -> None:
    pool = Pool(("a", "b", "c"), 0.95)
    now = fed(pool, dict.fromkeys(("a", "b", "c"), (90, 0.99)))
    assert all(pool.weight(name, now) == 100 for name in pool.gauges)


def test_an_engine_that_is_silent_counts_as_unknown() -> None:
    pool = Pool(("dead", "alive"), 0.95)
    now = fed(pool, {"dead": (10, 0.99), "alive": (30, 0.3)})
    assert pool.weight("dead", now) == 0
    pool.gauges["alive"].observe(Reading(30, 0, 0.3), now + 60)
    assert pool.weight("dead", now + 60) == 100
    assert pool.weight("alive", now + 60) == 100


def test_an_engine_without_cache_figures_keeps_full_weight() -> None:
    gauge = Gauge()
    gauge.observe(Reading(4, 2, None), 0)
    assert gauge.capacity is None
