"""Recorded load: trace files of several origins. Times are seconds from the first request, sizes are tokens.

By their columns: Azure's ``TIMESTAMP,ContextTokens,GeneratedTokens``; BurstGPT's ``Timestamp``,
``Request tokens``, ``Response tokens``; a plain ``time,prompt_tokens,output_tokens`` with `session` and
`prefix` if known; and the JSON lines of Mooncake.
"""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from heapq import heappop, heappush
from io import TextIOWrapper
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import FleetError, LbgenError, Location, Problem
from lbgen.reading import opened, readable
from lbgen.simulate.load.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

LARGEST = 4 * 1024**3
"""Bytes of a trace."""
MOST_PROBLEMS = 20
MOONCAKE_CHUNK = 512
MOST_TOKENS = 10_000_000


class Row(NamedTuple):
    """One request of a trace."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    chunks: tuple[int, ...] = ()
    session: str | None = None
    prefix: str | None = None


class Trace:
    """Requests as they were recorded, faster or slower as asked for; repeated when more are asked for."""

    chunk_tokens = MOONCAKE_CHUNK
    clients: int | None = None
    usual_requests = 10_000

    def __init__(self, name: str, rows: list[Row], skipped: int = 0) -> None:
        self.name = name
        self.rows = rows
        self.skipped = skipped
        """Rows that could not be read and were left out on request."""
        span = rows[-1].at_s - rows[0].at_s
        self._grid = _grid(rows)
        self._span = span + (self._grid or span / max(1, len(rows) - 1) or 1.0)
        self.own_rate: float | None = len(rows) / self._span

    @property
    def jittered(self) -> bool:
        """True when times sat on a coarse grid and were spread, since bursts on it are an artefact."""
        return self._grid > 0

    def requests(self, seed: int, rate_per_s: float, count: int) -> Iterator[Request]:
        """Yield so many requests in the order of arrival, from a place in the trace that the seed decides."""
        dice = Random(f"trace {seed}")  # noqa: S311 - has to be the same again
        pace = (self.own_rate or 1.0) / rate_per_s
        first = seed * count % len(self.rows)  # seeds of a short run see different stretches
        begin = self.rows[first].at_s
        late: list[tuple[float, int, Row]] = []  # spread over their step, a heap: they may pass each other
        for number in range(first, first + count):
            turn, index = divmod(number, len(self.rows))
            row = self.rows[index]
            at = row.at_s - begin + turn * self._span
            while late and late[0][0] < at:
                yield _request(heappop(late), pace)
            heappush(late, (at + dice.random() * self._grid, number, row))
        while late:
            yield _request(heappop(late), pace)

    def follow(self, request: Request, now: float) -> Request | None:
        """Return None: a trace has all its requests."""
        del request, now
        return None


def _request(entry: tuple[float, int, Row], pace: float) -> Request:
    at, _, row = entry
    request = Request(at * pace, row.prompt_tokens, row.output_tokens, row.chunks, row.session, row.prefix)
    request.conversation = row.session
    request.named = row.session is not None
    return request


def read_trace(path: Path, *, skip_bad_rows: bool = False) -> Trace:
    """Return the trace in a file; raises `FleetError` with the place of each bad row, unless skipped."""
    reader = _json_rows if path.suffix == ".jsonl" else _csv_rows
    try:
        with (
            readable(path),
            TextIOWrapper(opened(path, LARGEST), encoding="utf-8-sig", newline="") as stream,
        ):
            rows, problems = _collect(reader(str(path), stream))
    except csv.Error as error:
        raise LbgenError(f"{path}: is not CSV: {error}") from None
    if problems and not skip_bad_rows:
        raise FleetError(problems[:MOST_PROBLEMS])
    if not rows:
        raise LbgenError(f"{path}: has no request")
    return Trace(path.stem, sorted(rows, key=lambda row: row.at_s), len(problems))


def _collect(found: Iterable[Row | Problem]) -> tuple[list[Row], list[Problem]]:
    rows: list[Row] = []
    problems: list[Problem] = []
    for one in found:
        if isinstance(one, Problem):
            problems.append(one)
        else:
            rows.append(one)
    return rows, problems


def _csv_rows(name: str, lines: Iterable[str]) -> Iterator[Row | Problem]:
    reader = csv.reader(lines)
    header = [word.strip().lower() for word in next(reader, [])]
    layout = {
        role: next((header.index(n) for n in names if n in header), None) for role, names in _COLUMNS.items()
    }
    missing = [role for role in _NEEDED if layout[role] is None]
    if missing:
        names = " or ".join(f"'{column}'" for column in _COLUMNS[missing[0]])
        yield _bad(name, 1, 1, f"the header has no column {names}")
        return
    for cells in reader:
        if cells:
            yield _csv_row(name, reader.line_num, cells, layout)


def _csv_row(name: str, line: int, cells: list[str], layout: dict[str, int | None]) -> Row | Problem:
    values: dict[str, float] = {}
    for role, read in _NEEDED.items():
        index = layout[role] or 0
        text = cells[index].strip() if index < len(cells) else ""
        try:
            values[role] = read(text)
        except ValueError as error:
            before = cells[:index]
            column = 1 + len(",".join(before)) + (index < len(cells) and index > 0)
            return _bad(name, line, column, str(error))
    extra = {
        role: cells[place] or None
        for role in ("session", "prefix")
        if (place := layout[role]) is not None and place < len(cells)
    }
    return Row(values["time"], int(values["prompt"]), int(values["output"]), (), **extra)


def _json_rows(name: str, lines: Iterable[str]) -> Iterator[Row | Problem]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            chunks = tuple(int(chunk) for chunk in fields.get("hash_ids", ()))
            at_s = _time(str(fields["timestamp"])) / 1000
            prompt, output = _tokens(str(fields["input_length"])), _output(str(fields["output_length"]))
            # The first block is often the same for all: where a prompt belongs shows in the second.
            prefix = "-".join(map(str, chunks[:2])) or None
            yield Row(at_s, prompt, output, chunks, prefix=prefix)
        except json.JSONDecodeError as error:
            yield _bad(name, number, error.colno, f"is not JSON: {error.msg}")
        except KeyError as error:
            yield _bad(name, number, 1, f"has no {error}")
        except (AttributeError, TypeError):
            yield _bad(name, number, 1, "is not a request with timestamp, input_length and output_length")
        except ValueError as error:
            yield _bad(name, number, 1, str(error))


def _time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        try:
            # Azure writes seven digits of a second, of which Python's reader takes six.
            seconds = datetime.fromisoformat(text[:26]).replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise ValueError(f"'{text}' is not a time: write seconds, or 2026-01-31 12:00:00.5") from None
    if not -1e12 < seconds < 1e15:
        raise ValueError(f"'{text}' is not a time")
    return seconds


def _tokens(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_TOKENS:
        raise ValueError(f"'{text}' is not a number of tokens")
    return int(text)


def _output(text: str) -> int:
    if (tokens := _tokens(text)) == 0:
        raise ValueError("an answer of 0 tokens is none: such rows are failed requests")
    return tokens


_NEEDED: dict[str, Callable[[str], float]] = {"time": _time, "prompt": _tokens, "output": _output}
_COLUMNS = {
    "time": ("time", "timestamp", "arrival_s", "arrived_at"),
    "prompt": ("prompt_tokens", "contexttokens", "request tokens", "input_length", "num_prefill_tokens"),
    "output": ("output_tokens", "generatedtokens", "response tokens", "output_length", "num_decode_tokens"),
    "session": ("session", "session id", "session_id"),
    "prefix": ("prefix",),
}


def _bad(name: str, line: int, column: int, message: str) -> Problem:
    hint = "mend the row, or leave such rows out with --skip-bad-rows"
    return Problem("bad-trace-row", message, hint=hint, location=Location(name, line, column))


def _grid(rows: list[Row]) -> float:
    """Return the step of a coarse grid that all times sit on, else 0."""
    times = sorted({row.at_s for row in rows})
    if len(times) < 2 or len(rows) < 4 * len(times):
        return 0.0
    step = min(later - earlier for earlier, later in pairwise(times))
    steps = [(time - times[0]) / step for time in times]
    return step if all(abs(one - round(one)) < 1e-6 for one in steps) else 0.0
