"""How many requests a second servers can carry, and so what rate a load is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.simulate.profiles import Profile
    from lbgen.simulate.setup import Setup
    from lbgen.simulate.workload import Sizes


def server_capacity(profile: Profile, sizes: Sizes, cap: int | None = None) -> float:
    """Return the requests a second that one server carries with its batch full.

    Without prefix hits, which only the run can tell. Exact for the plain model, else within a few percent:
    a batch is as large as the slots, the memory and the balancers' cap allow.
    """
    batch = float(profile.slots if cap is None else min(profile.slots, cap))
    if profile.kv_tokens is not None:
        batch = max(1.0, min(batch, profile.kv_tokens / max(1.0, sizes.context)))
    token = profile.step / batch + profile.per_request + profile.per_kv_token * sizes.context
    prompt = profile.per_prefill_token * sizes.prompt + profile.per_attention * sizes.prompt**2 / 2
    return 1 / (sizes.output * token + prompt)


def capacity(setup: Setup, sizes: Sizes) -> float:
    """Return what all servers in rotation carry together, backups aside unless there is nothing else."""
    serving = [one for one in setup.servers if one.available and one.weight > 0]
    primaries = [one for one in serving if not one.backup] or serving
    return sum(
        server_capacity(one.profile, sizes, one.cap and one.cap * setup.balancers) for one in primaries
    )
