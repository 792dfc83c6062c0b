"""The load: rates, sizes, and what can be written."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from lbgen.problems import LbgenError
from lbgen.simulate.load.arrivals import ARRIVALS, arrivals
from lbgen.simulate.load.named import WORKLOADS, workload
from lbgen.simulate.load.workload import Bimodal, Sizes, sizes
from lbgen.simulate.servers.capacity import server_capacity
from lbgen.simulate.servers.step_times.profiles import PROFILES


@pytest.mark.parametrize("kind", ARRIVALS)
def test_arrivals_keep_their_rate(kind: str) -> None:
    times = list(arrivals(kind, Random(1), 20.0, 20_000))
    assert times == sorted(times)
    assert times[-1] == pytest.approx(1000, rel=0.05)


def test_a_ramp_ends_three_times_as_fast_as_it_begins() -> None:
    times = list(arrivals("ramp", Random(1), 20.0, 20_000))
    early = sum(time < 100 for time in times)
    late = sum(time > times[-1] - 100 for time in times)
    assert late == pytest.approx(3 * early, rel=0.25)


def test_bursts_vary_twice_as_much_as_poisson() -> None:
    variations = {}
    for kind in ("poisson", "bursty"):
        times = [0.0, *arrivals(kind, Random(1), 1.0, 20_000)]
        gaps = [b - a for a, b in pairwise(times)]
        variations[kind] = (sum((gap - 1) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert variations["bursty"] == pytest.approx(2 * variations["poisson"], rel=0.1)


def test_the_seed_workload_is_the_published_one() -> None:
    requests = list(Bimodal({}).requests(1, 20.0, 20_000))
    outputs = [request.output_tokens for request in requests]
    short = [tokens for tokens in outputs if tokens <= 100]
    long = [tokens for tokens in outputs if tokens > 100]
    assert len(short) / len(outputs) == pytest.approx(0.7, abs=0.01)
    assert (min(short), max(short), min(long), max(long)) == (20, 100, 500, 2000)
    assert requests[-1].arrived == pytest.approx(1000, rel=0.03)


def test_the_same_requests_come_whatever_the_rate() -> None:
    slow, fast = (Bimodal({}).requests(7, rate, 50) for rate in (1.0, 10.0))
    assert all(
        (a.output_tokens, a.arrived) == (b.output_tokens, pytest.approx(10 * b.arrived))
        for a, b in zip(slow, fast, strict=True)
    )


def test_the_capacity_of_the_plain_model() -> None:
    """Four servers carry 34.9 requests/s."""
    assert 4 * server_capacity(PROFILES["seed"], sizes(Bimodal({}))) == pytest.approx(34.88, abs=0.01)


def test_memory_bounds_the_capacity() -> None:
    profile = PROFILES["a100-8b"]
    short, long = (server_capacity(profile, Sizes(tokens, 100, tokens + 50)) for tokens in (100, 20_000))
    assert long < short / 20


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_makes_what_it_says(name: str) -> None:
    made = workload(name)
    first = [(r.arrived, r.prompt_tokens, r.output_tokens, r.chunks) for r in made.requests(3, 5.0, 100)]
    again = [(r.arrived, r.prompt_tokens, r.output_tokens, r.chunks) for r in made.requests(3, 5.0, 100)]
    assert first == again
    assert all(output > 0 and len(chunks) * 64 <= prompt + output for _, prompt, output, chunks in first)
    assert sizes(made).output > 0


def test_parameters_are_taken() -> None:
    (request,) = workload("fixed:prompt=7,output=9,arrivals=even").requests(1, 2.0, 1)
    assert (request.arrived, request.prompt_tokens, request.output_tokens) == (0.5, 7, 9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bimodel", "did you mean bimodal"),
        ("nothing", "there are bimodal"),
        ("fixed:size=3", "write one of prompt, output"),
        ("fixed:output", "as key=value"),
        ("fixed:output=many", "is not a number"),
        ("fixed:output=-1", "cannot be -1"),
        ("fixed:output=nan", "cannot be nan"),
        ("fixed:arrivals=never", "there are poisson"),
        ("none.csv", "cannot be read"),
    ],
)
def test_what_is_not_a_workload(text: str, words: str) -> None:
    with pytest.raises(LbgenError, match=words):
        workload(text)
