"""Load on a balancer, open-loop: requests leave when they are due, whatever became of earlier ones.

A closed loop would wait with a slow server and so never see the queue that users see (coordinated omission).
The driver measures its own lateness, and refuses to give results when it could not keep up.
Times of a result are seconds from the beginning of the run.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from aiohttp.typedefs import LooseHeaders

    Follow = Callable[["Result"], "Planned | None"]

MOST_LATE_S = 0.1
"""Lateness of the 99th percentile of the requests above which a run is refused."""

CONNECT_TIMEOUT_S = 30.0
TAIL_BYTES = 512
"""What is kept of an answer's end."""


class CouldNotKeepUpError(Exception):
    """The driver itself was too slow: the results would blame the balancer for it."""


class Planned(NamedTuple):
    """One request to send."""

    at_s: float
    output_tokens: int
    prompt: str | Sequence[Mapping[str, str]] = "Tell me about slow tokens."
    """A text, or the messages of a chat."""
    stream: bool = True
    headers: Mapping[str, str] = {}
    model: str = "mock"
    path: str = "/v1/completions"
    server_name: str | None = None
    """Whom a TLS client asks for (SNI); None: the URL's host."""
    source: str | None = None
    """The address of this machine that it comes from; None: what the system takes."""
    client: str | None = None
    """Whose key it has, for whoever asks afterwards."""
    origin: object = None
    """What it was made from, for whoever made it."""
    fields: Mapping[str, object] = {}
    """Further members of the body."""
    leaving: Callable[[Planned], Planned] | None = None
    """Makes of it what is sent, for what is only known when it leaves."""


@dataclass(slots=True)
class Result:
    """What became of one request."""

    planned: Planned
    started_s: float = 0.0
    headers_s: float | None = None
    first_s: float | None = None
    """The first byte of the body, which for a stream is the first token."""
    ended_s: float = 0.0
    status: int | None = None
    server: str | None = None
    """Which mock answered, in its own words."""
    error: str | None = None
    """The exception's name, when the answer did not arrive whole."""
    size: int = 0
    tail: bytes = b""
    """The last bytes of the body; of an error the whole body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The answer's headers, whatever their names' case."""
    arrivals: list[float] = field(default_factory=list)
    """When each piece came."""

    @property
    def ok(self) -> bool:
        """Answered, and whole: a stream has to say so itself."""
        whole = not self.planned.stream or self.tail.rstrip().endswith(b"data: [DONE]")
        return self.status == 200 and self.error is None and whole

    @property
    def latency_s(self) -> float:
        """From when it was due to the last byte, so that our own lateness counts."""
        return self.ended_s - self.planned.at_s

    @property
    def late_s(self) -> float:
        """How late the driver was."""
        return self.started_s - self.planned.at_s


class Lateness(NamedTuple):
    """How long after they were due requests left."""

    p99_s: float
    most_s: float

    @classmethod
    def of(cls, results: Iterable[Result]) -> Lateness:
        """Return the lateness of a run; raises `ValueError` for one without requests."""
        late = [max(0.0, result.late_s) for result in results]
        return cls(percentile(late, 0.99), max(late))


async def run(  # noqa: PLR0913 - each a matter of its own, and named
    url: str,
    planned: Sequence[Planned],
    *,
    most_late_s: float = MOST_LATE_S,
    fresh: bool = False,
    tls: ssl.SSLContext | None = None,
    follow: Follow | None = None,
) -> list[Result]:
    """Send every request when it is due; return results in the same order.

    `fresh`: each on a connection of its own. `follow` tells which request a result brings about, if any, from
    the same address; its result comes right behind. Raises `CouldNotKeepUpError`.
    """
    async with AsyncExitStack() as stack:
        clients = {
            source: await stack.enter_async_context(session(fresh=fresh, tls=tls, source=source))
            for source in dict.fromkeys(one.source for one in planned)
        }
        with _no_collection():
            talks = await _all(clients, url, planned, follow)
        results = [result for talk in talks for result in talk]
    late = Lateness.of(results).p99_s
    if late > most_late_s:
        raise CouldNotKeepUpError(
            f"the load driver was {late * 1000:.0f} ms late (99th percentile; at most "
            f"{most_late_s * 1000:.0f} ms): this machine is too slow or too busy for this rate"
        )
    return results


async def closed(url: str, planned: Iterable[Planned], parallel: int, *, fresh: bool = False) -> list[Result]:
    """Keep so many requests in flight until all are answered; `at_s` is not looked at."""
    waiting = iter(planned)
    results: list[Result] = []

    async def worker(client: aiohttp.ClientSession) -> None:
        for one in waiting:
            now = time.monotonic() - begin
            results.append(await send(client, url, one._replace(at_s=now), begin))

    async with session(fresh=fresh) as client:
        begin = time.monotonic()
        await asyncio.gather(*(worker(client) for _ in range(parallel)))
    return results


async def burst(url: str, planned: Sequence[Planned]) -> list[Result]:
    """Send all at once."""
    return await closed(url, planned, len(planned))


@asynccontextmanager
async def session(
    *, fresh: bool = False, tls: ssl.SSLContext | None = None, source: str | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """Give a client without limits of its own, which reuses connections as SDKs do, or (`fresh`) none.

    `source`: the address of this machine that it connects from.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
    where = None if source is None else (source, 0)
    connector = aiohttp.TCPConnector(limit=0, force_close=fresh, ssl=tls or True, local_addr=where)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as client:
        yield client


async def send(client: aiohttp.ClientSession, url: str, planned: Planned, begin: float) -> Result:
    """Send one request now; every failure ends up in the result."""
    planned = planned.leaving(planned) if planned.leaving else planned
    result = Result(planned, started_s=time.monotonic() - begin)
    body = {"model": planned.model, "stream": planned.stream, "max_tokens": planned.output_tokens,
            "prompt" if isinstance(planned.prompt, str) else "messages": planned.prompt,
            **planned.fields}  # fmt: skip
    headers: LooseHeaders = {"content-type": "application/json", **planned.headers}
    try:
        async with client.post(
            f"{url}{planned.path}", data=BytesIO(json.dumps(body).encode()), headers=headers,
            server_hostname=planned.server_name,
        ) as answer:  # fmt: skip
            result.status, result.headers = answer.status, answer.headers
            result.server = answer.headers.get("x-mock-server")
            result.headers_s = time.monotonic() - begin
            await _read(answer, result, begin)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        result.error = type(error).__name__
    result.ended_s = time.monotonic() - begin
    return result


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of all do not exceed (nearest rank); raises `ValueError` for none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


async def _all(
    clients: Mapping[str | None, aiohttp.ClientSession],
    url: str,
    planned: Sequence[Planned],
    follow: Follow | None,
) -> list[list[Result]]:
    """Send every request when it is due, and wait for the last; return results in the order of the requests.

    A task begins when its request is due: thousands at once would make the first requests late.
    """
    tasks: dict[int, asyncio.Task[list[Result]]] = {}
    begin = time.monotonic()
    for index in sorted(range(len(planned)), key=lambda index: planned[index].at_s):
        one = planned[index]
        early_s = begin + one.at_s - time.monotonic()
        if early_s > 0:
            await asyncio.sleep(early_s)
        tasks[index] = asyncio.create_task(_talk(clients[one.source], url, one, begin, follow))
    return list(await asyncio.gather(*(tasks[index] for index in range(len(planned)))))


async def _talk(
    client: aiohttp.ClientSession, url: str, planned: Planned | None, begin: float, follow: Follow | None
) -> list[Result]:
    """Send a request when it is due, and those that follow from it."""
    results = []
    while planned is not None:
        early_s = begin + planned.at_s - time.monotonic()
        if early_s > 0:
            await asyncio.sleep(early_s)
        result = await send(client, url, planned, begin)
        results.append(result)
        planned = follow(result) if follow is not None else None
    return results


async def _read(answer: aiohttp.ClientResponse, result: Result, begin: float) -> None:
    async for piece in answer.content.iter_any():
        now = time.monotonic() - begin
        result.first_s = now if result.first_s is None else result.first_s
        result.size += len(piece)
        result.tail = (result.tail + piece)[-TAIL_BYTES if result.status == 200 else 0 :]
        result.arrivals.append(now)


class _no_collection:  # noqa: N801 - used as a statement
    """Pauses the garbage collector: a full collection of many tasks would make the driver late."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
