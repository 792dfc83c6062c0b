"""How many requests a second servers can carry, what rate a load is, and how long a run has to be."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from lbgen.simulate.load.workload import sizes

if TYPE_CHECKING:
    from lbgen.simulate.load.workload import Sizes, Workload
    from lbgen.simulate.servers.setup import Setup
    from lbgen.simulate.servers.step_times.profiles import Profile


def server_capacity(profile: Profile, load: Sizes, cap: int | None = None) -> float:
    """Return the requests a second that one server carries with its batch full.

    Without prefix hits, which only the run can tell. Exact for the plain model, else within a few percent:
    a batch is as large as the slots, the memory and the balancers' cap allow.
    """
    batch = batch_of(profile, load, cap)
    token = profile.step / batch + profile.per_request + profile.per_kv_token * load.context
    prompt = profile.per_prefill_token * load.prompt + profile.per_attention * load.prompt**2 / 2
    return 1 / (load.output * token + prompt)


LONGEST = 10
"""A run should take so many times as long as the longest answer."""
EACH = 100
"""Requests of a run for each server, at least."""
MOST = 200_000
"""Requests of a run at most, unless more are asked for."""


def usual_requests(setup: Setup, workload: Workload, rate_per_s: float, longest: int = LONGEST) -> int:
    """Return how many requests a run needs for its percentiles to be those of a steady state.

    It takes `longest` times as long as the longest answer.
    """
    least = max(workload.usual_requests, EACH * len(setup.servers))
    if workload.clients is not None:
        return min(MOST, least)
    serving = [one for one in setup.servers if one.available and one.weight > 0] or list(setup.servers)
    load = sizes(workload)
    longest_s = max(longest_answer_s(one.profile, load, rate_per_s / len(serving)) for one in serving)
    return min(MOST, max(least, ceil(longest * longest_s * rate_per_s)))


def longest_answer_s(profile: Profile, load: Sizes, rate_per_s: float) -> float:
    """Return about how long the longest answer takes on a server to which so many requests a second come.

    From how full the batch is at that rate (Little's law), at most all of its slots.
    """
    tokens = rate_per_s * load.output
    each = profile.per_request + profile.per_kv_token * load.context
    prompt = profile.per_prefill_token * load.prompt + profile.per_attention * load.prompt**2 / 2
    free = 1 - rate_per_s * prompt - tokens * each  # share of the time for what a step takes anyhow
    full = profile.step + each * batch_of(profile, load)
    step = min(full, profile.step / free) if free > 0 else full
    return load.longest * step + load.prompt * profile.per_prefill_token


def batch_of(profile: Profile, load: Sizes, cap: int | None = None) -> float:
    """Return how many requests a server decodes at once at most: slots, memory and the balancers' cap."""
    batch = float(profile.slots if cap is None else min(profile.slots, cap))
    if profile.kv_tokens is not None:
        batch = max(1.0, min(batch, profile.kv_tokens / max(1.0, load.context)))
    return batch


def capacity(setup: Setup, load: Sizes) -> float:
    """Return what all servers in rotation carry together, backups aside unless there is nothing else."""
    serving = [one for one in setup.servers if one.available and one.weight > 0]
    primaries = [one for one in serving if not one.backup] or serving
    return sum(server_capacity(one.profile, load, one.cap and one.cap * setup.balancers) for one in primaries)
