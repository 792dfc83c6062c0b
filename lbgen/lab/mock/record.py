"""What a mock GPU server remembers of the requests it saw."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from lbgen.lab.mock.engine_metrics import ANSWER_BOUNDS, FIRST_TOKEN_BOUNDS, Histogram
from lbgen.simulate.runs.statistics import Quantiles

if TYPE_CHECKING:
    from lbgen.lab.mock.http_server import Request

MOST_REQUESTS = 50_000
"""How many requests are remembered, the newest; about 1 kB each."""
SETTLING = 4_096
"""Tokens after which their lateness is counted up, so that memory stays bounded."""


class Seen:
    """One request and what became of it. Times are `time.monotonic`: containers of one machine share it."""

    __slots__ = ("begin", "digest", "end", "outcome", "request", "size", "tokens")

    def __init__(self, request: Request) -> None:
        self.begin = time.monotonic()
        self.end: float | None = None
        self.size = len(request.body)
        self.digest = hashlib.sha256(request.body).hexdigest()[:16]
        self.request = request._replace(body=b"")
        self.outcome = "open"
        self.tokens = 0

    def as_json(self) -> dict[str, Any]:
        """Return what the control API shows."""
        return {
            "begin": self.begin, "end": self.end, "method": self.request.method, "path": self.request.path,
            "query": self.request.query, "headers": [list(header) for header in self.request.headers],
            "client": self.request.client, "body_bytes": self.size, "body_sha256": self.digest,
            "outcome": self.outcome, "tokens": self.tokens,
        }  # fmt: skip


class Record:
    """All that was seen since the last reset."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._open: set[Seen] = set()
        self.reset()

    def reset(self) -> None:
        """Forget everything but the requests in flight."""
        self.requests: deque[Seen] = deque(self._open, maxlen=MOST_REQUESTS)
        self.outcomes: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self.series: list[tuple[float, int]] = [(time.monotonic(), self.in_flight)]
        self.most_in_flight = self.in_flight
        self.first_token = Histogram(FIRST_TOKEN_BOUNDS)
        self.answer = Histogram(ANSWER_BOUNDS)
        self.lateness = Quantiles()
        self._woken = 0

    def late(self, seconds: float) -> None:
        """Note by how much tokens missed their time, because this machine was busy."""
        self.lateness.add(max(0.0, seconds))
        self._woken += 1
        if not self._woken % SETTLING:
            self.lateness.settle()

    @property
    def generated(self) -> int:
        """Tokens of all answers, those that are not complete included: as vLLM counts."""
        return self.generated_tokens + sum(seen.tokens for seen in self._open)

    def begin(self, request: Request) -> Seen:
        """Note that a generation has come in."""
        seen = Seen(request)
        self._open.add(seen)
        self.requests.append(seen)
        self._move(1, seen.begin)
        return seen

    def first(self, seen: Seen) -> None:
        """Note that an answer has its first token."""
        self.first_token.observe(time.monotonic() - seen.begin)

    def end(self, seen: Seen, outcome: str) -> None:
        """Note that it ended: ``ok``, ``aborted`` by the client, ``fault:…``, or ``refused``."""
        seen.end = time.monotonic()
        seen.outcome = outcome
        self._open.discard(seen)
        self.outcomes[outcome] += 1
        if outcome == "ok":
            self.answer.observe(seen.end - seen.begin)
        self.generated_tokens += seen.tokens
        self._move(-1, seen.end)

    def _move(self, by: int, now: float) -> None:
        self.in_flight += by
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.series.append((now, self.in_flight))
