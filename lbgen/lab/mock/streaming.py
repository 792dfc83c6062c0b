"""How a mock GPU server sends an answer piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from lbgen.lab.mock import openai_api
from lbgen.lab.mock.faults import MID_STREAM, Fault

if TYPE_CHECKING:
    from lbgen.lab.mock.gpu import Generation
    from lbgen.lab.mock.http_server import Exchange, Header
    from lbgen.lab.mock.record import Seen


class Source(Protocol):
    """What makes the tokens: the GPU, or a given pace."""

    def produced(self, generation: Generation) -> int:
        """Return how many tokens the answer has by now."""

    def wait_s(self, generation: Generation, chunk_s: float) -> float:
        """Return how long to wait before the next piece, in seconds of the wall clock."""


class Job(NamedTuple):
    """One answer on its way to a client."""

    exchange: Exchange
    seen: Seen
    ask: openai_api.Ask
    answer: openai_api.Answer
    generation: Generation
    fault: Fault | None

    @property
    def breaks_at(self) -> int | None:
        """After how many tokens the connection breaks on command."""
        if self.fault is None or self.fault.kind not in MID_STREAM:
            return None
        return 0 if self.fault.kind == "reset_after_headers" else self.ask.output_tokens // 2


async def stream(job: Job, source: Source, headers: tuple[Header, ...], chunk_s: float) -> str:
    """Send the whole answer; return its outcome. Raises `ClientGone`."""
    # vLLM sends the headers before the first token, while the request may still wait for a slot.
    await job.exchange.start(200, (*headers, *openai_api.SSE))
    if job.breaks_at == 0:
        return _break(job)
    await job.generation.first
    while job.seen.tokens < job.ask.output_tokens:
        produced = source.produced(job.generation)
        if job.breaks_at is not None and produced >= job.breaks_at:
            return _break(job)
        await _piece(job, produced)
        await job.generation.pause(source.wait_s(job.generation, chunk_s))
    if job.ask.include_usage:
        await job.exchange.send(job.answer.usage(job.seen.tokens))
    await job.exchange.send(openai_api.DONE)
    await job.exchange.finish()
    return "ok"


async def _piece(job: Job, produced: int) -> None:
    """Send the tokens that came since the last piece, if any."""
    sent = job.seen.tokens
    if produced > sent:
        last = produced == job.ask.output_tokens
        await job.exchange.send(job.answer.piece(sent, produced - sent, last=last))
        job.seen.tokens = produced


def _break(job: Job) -> str:
    assert job.fault is not None  # noqa: S101 - `breaks_at` says so
    if job.fault.kind == "half_close":
        job.exchange.hang_up()
    else:
        job.exchange.reset()
    return f"fault:{job.fault.kind}"
