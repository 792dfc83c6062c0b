"""The loads of agents and tenants: the workloads of `lbgen simulate`, sent to a balancer as chats.

No header names a session, but where `named` adds one. Times are model seconds.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from lbgen.lab.load import Planned
from lbgen.lab.trial.load.prompts import messages_of
from lbgen.simulate.load.named import workload
from lbgen.simulate.load.request import UNSET, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.lab.load import Follow, Result

CHAT = "/v1/chat/completions"


class Script(NamedTuple):
    """The requests of a run."""

    planned: list[Planned]
    follow: Follow | None = None
    """What the end of a request brings about."""


class Simulated(NamedTuple):
    """A workload by its name, with the rate of a workload that has arrivals."""

    name: str
    rate: float = 1.0

    def script(self, seed: int, requests: int, speed: float) -> Script:
        """Return so many requests."""
        load, numbers = workload(self.name), count()

        def sent(request: Request) -> Planned:
            messages = messages_of(request, load.chunk_tokens, next(numbers))
            at_s = request.arrived / speed
            return Planned(at_s, request.output_tokens, messages, path=CHAT, origin=request)

        def follow(result: Result) -> Planned | None:
            request, now = result.planned.origin, result.ended_s * speed
            assert isinstance(request, Request)
            request.finished = now if result.ok else UNSET
            following = load.follow(request, now)
            return None if following is None else sent(following)

        return Script([sent(one) for one in load.requests(seed, self.rate, requests)], follow)


def named(script: Script, header: str) -> Script:
    """Return the same requests with their session's name, or else their prefix's, in a header."""

    def told(planned: Planned) -> Planned:
        request = planned.origin
        assert isinstance(request, Request)
        name = request.session or request.prefix
        return planned._replace(headers={header: name}) if name else planned

    def follow(result: Result) -> Planned | None:
        following = script.follow(result) if script.follow else None
        return None if following is None else told(following)

    return Script([told(one) for one in script.planned], follow)


def turn_of(result: Result) -> str | None:
    """Return the conversation that a request is a turn of."""
    request = result.planned.origin
    return request.session if isinstance(request, Request) and request.parts else None


def moved(results: Sequence[Result]) -> float:
    """Return the share of turns that went to another server than the one before."""
    before: dict[str, str | None] = {}
    turns = changes = 0
    for result in sorted(results, key=lambda result: result.started_s):
        session = turn_of(result)
        if session is None:
            continue
        if session in before:
            turns += 1
            changes += before[session] != result.server
        before[session] = result.server
    return changes / turns if turns else 0.0


def busiest(results: Sequence[Result], servers: int) -> float:
    """Return how many times the average the busiest server got."""
    counts: dict[str | None, int] = {}
    for result in results:
        counts[result.server] = counts.get(result.server, 0) + 1
    return max(counts.values()) * servers / max(1, len(results))
