"""The load driver: open-loop, honest about its own lateness."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from lbgen.lab import load
from tests.arrivals import bimodal


def test_the_workload_is_the_same_again_and_as_it_says():
    planned = bimodal(seed=1, rate_per_s=20, count=4000, speed=2)
    assert planned == bimodal(seed=1, rate_per_s=20, count=4000, speed=2)
    assert planned != bimodal(seed=2, rate_per_s=20, count=4000, speed=2)
    assert all(later.at_s > earlier.at_s for earlier, later in pairwise(planned))
    assert planned[-1].at_s == pytest.approx(4000 / 20 / 2, rel=0.05)
    short = [one.output_tokens for one in planned if one.output_tokens <= 100]
    long = [one.output_tokens for one in planned if one.output_tokens > 100]
    assert len(short) / 4000 == pytest.approx(0.7, abs=0.03)
    assert (min(short), max(short)) == (20, 100)
    assert min(long) >= 500
    assert max(long) <= 2000


def test_results_tell_what_happened(with_lab):
    planned = [load.Planned(0.1, 20), load.Planned(0.2, 20, headers={"x-mock-fault": "status:503"})]
    served, refused = with_lab(lambda lab: load.run(lab.url, planned))
    assert served.ok
    assert served.server == "gpu-0"
    assert 0.1 <= served.started_s <= served.headers_s <= served.first_s <= served.ended_s
    assert served.latency_s == served.ended_s - 0.1
    assert (refused.ok, refused.status, refused.error) == (False, 503, None)
    assert b"on command" in refused.tail


@pytest.mark.parametrize("fault", ["half", "half_close", "close", "reset", "garbage"])
def test_a_broken_answer_is_no_success(with_lab, fault):
    planned = [load.Planned(0, 20, headers={"x-mock-fault": fault})]
    (result,) = with_lab(lambda lab: load.run(lab.url, planned))
    assert not result.ok
    assert result.error


def test_nobody_there_is_a_result(with_lab):
    (result,) = with_lab(lambda _lab: load.run("http://127.0.0.1:1", [load.Planned(0, 1)]))
    assert result.status is None
    assert result.error == "ClientConnectorError"


def test_a_slow_answer_delays_nobody(with_lab):
    planned = [load.Planned(0, 1, headers={"x-mock-pace": "1,0"}), load.Planned(0.1, 1), load.Planned(0.2, 1)]
    slow, *others = with_lab(lambda lab: load.run(lab.url, planned))
    assert slow.ended_s >= 1
    assert all(result.ended_s < 0.9 for result in others)


def test_a_driver_that_is_late_gives_no_results(with_lab):
    planned = [load.Planned(index * 0.001, 1) for index in range(100)]

    async def blocked(lab):
        asyncio.get_running_loop().call_later(0.02, time.sleep, 0.4)
        return await load.run(lab.url, planned, most_late_s=0.1)

    with pytest.raises(load.CouldNotKeepUpError, match="ms late"):
        with_lab(blocked)


def test_lateness_is_told(with_lab):
    planned = [load.Planned(index * 0.02, 1) for index in range(40)]

    async def held_up(lab):
        asyncio.get_running_loop().call_later(0.3, time.sleep, 0.1)
        return await load.run(lab.url, planned, most_late_s=5)

    late = load.Lateness.of(with_lab(held_up))
    assert 0 <= late.p99_s <= late.most_s
    assert late.most_s > 0.05


def test_many_requests_do_not_make_the_first_ones_late(with_lab):
    planned = [load.Planned(0.001 * index, 1) for index in range(20)]
    later = [load.Planned(600.0, 1)] * 5000
    seen = []

    async def leave(lab):
        running = asyncio.create_task(load.run(lab.url, [*planned, *later], most_late_s=1000))
        await asyncio.sleep(1.0)
        seen.append(len(asyncio.all_tasks()))
        running.cancel()

    with_lab(leave)
    assert seen[0] < 100  # and not one for each request to come


def test_requests_come_from_several_addresses(with_lab):
    planned = [load.Planned(0, 1, source=f"127.0.1.{index % 3 + 1}") for index in range(6)]

    async def ask(lab):
        await load.run(lab.url, planned, most_late_s=5)
        return await lab.get("/mock/requests")

    clients = sorted(seen["client"].split("'")[1] for seen in with_lab(ask))
    assert clients == ["127.0.1.1", "127.0.1.1", "127.0.1.2", "127.0.1.2", "127.0.1.3", "127.0.1.3"]


@pytest.mark.parametrize(("fresh", "connections"), [(False, 1), (True, 4)])
def test_connections_are_reused_or_not(with_lab, fresh, connections):
    async def ask(lab):
        await load.closed(lab.url, [load.Planned(0, 1)] * 4, 1, fresh=fresh)
        return await lab.get("/mock/requests")

    assert len({seen["client"] for seen in with_lab(ask)}) == connections


def test_a_closed_loop_keeps_so_many_in_flight(with_lab):
    async def ask(lab):
        results = await load.closed(lab.url, [load.Planned(0, 200)] * 12, 3)
        return results, await lab.get("/mock/state")

    results, state = with_lab(ask)
    assert [result.ok for result in results] == [True] * 12
    assert state["most_in_flight"] == 3


@pytest.mark.parametrize(
    ("share", "expected"), [(0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1, 100)]
)
def test_percentiles(share, expected):
    assert load.percentile(list(range(100, 0, -1)), share) == expected


def test_no_values_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        load.percentile([], 0.5)
