"""A profile from probes of one server: straight lines through few points. Times are seconds.

What is fitted is the model of `profiles`: a step of ``n`` decoding requests takes ``step + per_request * n +
per_kv_token * their tokens``; a prompt of ``t`` tokens alone takes ``per_prefill_token * t + per_attention *
t * t / 2`` and a step for each piece.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.servers.step_times.calibration import Calibration, Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.simulate.servers.step_times.profiles import Profile

ROUNDS = 5
"""The three parts are fitted in turns: each changes what the others have to explain."""


class Prompt(NamedTuple):
    """A prompt that was computed on an idle server: its tokens, and seconds to the first token."""

    tokens: int
    first_s: float


class Probes(NamedTuple):
    """What was measured of one server."""

    batches: tuple[Point, ...] = ()
    """Batches of short prompts."""
    deep: tuple[Point, ...] = ()
    """Batches of long prompts, from which the cost of context comes."""
    prompts: tuple[Prompt, ...] = ()
    slots: int | None = None
    """Requests that decoded at once where more were sent; None: all of them did."""
    prefix_cache: bool | None = None
    """Whether the same long prompt was faster the second time; None: not tried."""


def fitted(probes: Probes, like: Profile) -> Profile:
    """Return the profile that explains the probes best; what they do not tell stays as in `like`."""
    found = like._replace(per_kv_token=0.0, per_attention=0.0)
    for _ in range(ROUNDS):
        line = Calibration(probes.batches).applied(found)
        found = found._replace(step=line.step, per_request=line.per_request)
        found = found._replace(per_kv_token=_per_context(probes.deep, found))
    found = _with_prompts(probes.prompts, found)
    if probes.slots is not None:
        found = found._replace(slots=probes.slots)
    if probes.prefix_cache is not None:
        found = found._replace(prefix_cache=probes.prefix_cache)
    return found


def _per_context(points: Sequence[Point], profile: Profile) -> float:
    """Return the cost of a token of context, from what a step of long prompts takes beyond a short one."""
    more = sum(one.token_s - profile.step - profile.per_request * one.in_flight for one in points)
    tokens = sum(one.in_flight * one.context for one in points)
    return max(0.0, more / tokens) if tokens else 0.0


def _with_prompts(prompts: Sequence[Prompt], profile: Profile) -> Profile:
    """Return the profile with the cost of prompts: least squares through the origin, in t and t * t / 2."""
    if not prompts:
        return profile
    times = [max(0.0, one.first_s - _steps(one, profile) * profile.step) for one in prompts]
    lines, squares = [float(one.tokens) for one in prompts], [one.tokens**2 / 2 for one in prompts]
    a, b, c = _dot(lines, lines), _dot(lines, squares), _dot(squares, squares)
    x, y = _dot(lines, times), _dot(squares, times)
    determinant = a * c - b * b
    token, pair = x / a, 0.0
    if len(prompts) > 2 and determinant > 1e-9 * a * c:
        token, pair = (c * x - b * y) / determinant, (a * y - b * x) / determinant
    if pair < 0 or token < 0:
        token, pair = (x / a, 0.0) if pair < 0 else (0.0, y / c)
    return profile._replace(per_prefill_token=token, per_attention=pair)


def _steps(prompt: Prompt, profile: Profile) -> int:
    return ceil(prompt.tokens / profile.batch_tokens)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
