"""What several balancers count is divided among them, never exceeded where it can be helped, never 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.fleet.shares import shared_out, warnings
from lbgen.model import Balancers, Limit, Queue
from lbgen.units import Rate
from tests import factory


def fleet(instances: int, **values):
    """A fleet with every number that is divided."""
    numbers = {"cap": 32, "size": 512, "rate": Rate(600, 60), "burst": 50, "concurrent": 50} | values
    path = ("listeners", "default", "limits", 0)
    limit = Limit(numbers["rate"], numbers["burst"], numbers["concurrent"], "total", path)
    return factory.fleet(
        factory.pool(
            max_in_flight=numbers["cap"],
            queue=Queue(numbers["size"], 1_000, "fifo"),
            servers=factory.servers("a:1", max_in_flight=numbers["cap"]) + factory.servers("b:1"),
        ),
        listeners=(factory.listener(limits=(limit,)),),
        clients=(
            factory.client(rate=numbers["rate"], burst=numbers["burst"], max_in_flight=numbers["concurrent"]),
        ),
        balancers=Balancers(instances, {}),
    )


def numbers_of(fleet):
    pool, client, limit = fleet.pools[0], fleet.clients[0], fleet.listeners[0].limits[0]
    return (
        (pool.max_in_flight, pool.servers[0].max_in_flight, pool.servers[1].max_in_flight, pool.queue.size),
        (client.rate, client.burst, client.max_in_flight),
        (limit.rate, limit.burst, limit.concurrent),
    )


def test_one_balancer_sees_the_fleet_as_it_is():
    alone = fleet(1)
    assert shared_out(alone) == alone
    assert list(warnings(fleet(1))) == []


def test_shares_are_rounded_down():
    shared = shared_out(fleet(3))
    third = (Rate(200, 60), 16, 16)
    assert numbers_of(shared) == ((10, 10, None, 170), third, third)
    assert list(warnings(fleet(3))) == []


def test_no_share_is_zero_and_the_excess_is_named():
    small = fleet(4, cap=3, size=2, burst=1, concurrent=2, rate=Rate(1, 3_600))
    shared = shared_out(small)
    quarter = (Rate(1, 3_600), 1, 1)
    assert numbers_of(shared) == ((1, 1, None, 1), quarter, quarter)
    assert {problem.path for problem in warnings(small)} == {
        ("pools", "chat", "max_in_flight"),
        ("pools", "chat", "queue", "size"),
        ("pools", "chat", "servers", 0, "max_in_flight"),
        ("clients", "team-a", "rate"),
        ("clients", "team-a", "burst"),
        ("clients", "team-a", "max_in_flight"),
        ("listeners", "default", "limits", 0, "rate"),
        ("listeners", "default", "limits", 0, "burst"),
        ("listeners", "default", "limits", 0, "concurrent"),
    }
    assert all(not problem.is_error and "4" in problem.message for problem in warnings(small))


@pytest.mark.parametrize(
    ("rate", "instances", "share"),
    [
        (Rate(1, 1), 2, Rate(30, 60)),
        (Rate(10, 60), 3, Rate(3, 60)),
        (Rate(2, 60), 3, Rate(40, 3_600)),
        (Rate(1, 1), 100, Rate(36, 3_600)),
        (Rate(1, 3_600), 2, Rate(1, 3_600)),
    ],
)
def test_small_rates_are_counted_over_a_longer_time(rate, instances, share):
    assert shared_out(fleet(instances, rate=rate)).clients[0].rate == share


def test_no_burst_and_no_cap_stay_none():
    shared = shared_out(fleet(4, burst=0, cap=None, concurrent=None, rate=None))
    assert numbers_of(shared) == ((None, None, None, 128), (None, 0, None), (None, 0, None))


@given(
    instances=st.integers(1, 50),
    cap=st.integers(1, 500),
    requests=st.integers(1, 5_000),
    seconds=st.sampled_from([1, 60, 3_600]),
)
def test_the_sum_never_exceeds_what_was_written_without_a_warning(instances, cap, requests, seconds):
    whole = fleet(instances, cap=cap, rate=Rate(requests, seconds))
    shared = shared_out(whole)
    warned = {problem.path[-1] for problem in warnings(whole)}
    assert shared.pools[0].max_in_flight >= 1
    assert (shared.pools[0].max_in_flight * instances > cap) == ("max_in_flight" in warned)
    rate = shared.clients[0].rate
    assert rate.requests >= 1
    assert (rate.requests * instances * seconds > requests * rate.seconds) == ("rate" in warned)
