"""An access log as the load: arrivals, prompts, answers and conversations, and what the log does not tell."""

from __future__ import annotations

import re
from collections import Counter
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.problems import FleetError, LbgenError, Location, Problem
from lbgen.reading import opened, readable
from lbgen.simulate.load.logs.lines import LONGEST_LINE, parsed
from lbgen.simulate.load.logs.replay import Log, Replay, Turn, busiest
from lbgen.simulate.load.logs.terms import parts_of, terms_of
from lbgen.simulate.load.logs.words import MOST_NAMED, Found, Taken, counted, names_of, said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.simulate.load.logs.lines import Line
    from lbgen.simulate.load.logs.terms import Terms

LARGEST = 8 * 1024**3
"""Bytes of a log."""
STREAMED = 0.3
"""An answer came in a stream when its first byte left so much of its time to go, and `STREAMED_S`."""
STREAMED_S = 0.05
HEADERS = 400
"""Bytes of an answer that is no stream which are no text, about: its headers, and what is around in JSON."""
NO_TEXT = ("/embeddings", "/embed", "/rerank", "/score", "/classify", "/tokenize", "/detokenize", "/pooling")
"""Paths of requests that generate nothing."""


def is_log(text: str) -> bool:
    """Tell whether a workload's text is about an access log: by its name, else by the file's first line."""
    name, _ = parts_of(text)
    if re.search(r"\.log(\.\d+)?$", name):
        return True
    if name.endswith(".csv") or not (name.endswith(".jsonl") or "/" in name):
        return False
    try:
        with opened(name, LARGEST) as stream:
            first = stream.readline(LONGEST_LINE).decode("utf-8-sig", "replace").strip()
        return "input_length" not in first and bool(parsed(first))
    except (OSError, ValueError, OverflowError):
        return False


def read_replay(text: str, *, pool: str | None = None) -> Replay:
    """Return a log that is played once, as it was; raises as `read_log`."""
    log = read_log(text, pool=pool)
    return Replay(log.name, log.turns, log.grid_s, said=log.said)


def read_log(text: str, *, pool: str | None = None, busiest_s: float | None = None) -> Log:
    """Return the load in a log; raises `LbgenError`, `FleetError` where most lines cannot be read.

    `pool`: whose lines count where the log names pools. `busiest_s`: only the busiest stretch of this length
    counts, unless the terms say otherwise, and seeds draw from it, which shows how far the log is chance.
    """
    name, terms = terms_of(text)
    path = Path(name)
    with (
        readable(path),
        TextIOWrapper(opened(path, LARGEST, pipe=True), encoding="utf-8", errors="replace") as stream,
    ):
        found = _collected(stream, terms)
    if len(found.bad) * 2 > found.lines or not found.lines:
        hint = "lbgen's own logs, other JSON, HAProxy's httplog and NGINX's combined format can be read"
        problems = [
            Problem("bad-log-line", why, hint=hint, location=Location(name, number, 1))
            for number, why in found.bad[:MOST_NAMED]
        ]
        if problems:
            raise FleetError(problems)
        raise LbgenError(f"{path}: is empty")
    taken = _taken(path, found, terms, pool, busiest_s)
    whole = all(line.whole_seconds for line, _ in found.rows)
    return Log(
        path.name, taken.picked, 1.0 if whole else 0.0, resampled=busiest_s is not None,
        said=list(said(taken, terms)),
    )  # fmt: skip


def _collected(stream: Iterable[str], terms: Terms) -> Found:
    found = Found([], "", 0, [], Counter(), 0, [])
    forms: Counter[str] = Counter()
    lines = streams = 0
    for number, text in enumerate(stream, 1):
        if not text.strip():
            continue
        lines += 1
        try:
            line = parsed(text.strip(), terms.session)
        except (ValueError, OverflowError) as error:
            found.bad.append((number, str(error)))
            continue
        forms[line.form] += 1
        if why := _left_out(line):
            found.left_out[why] += 1
            continue
        streamed = _streamed(line, terms)
        streams += streamed
        found.rows.append((line, _output(line, terms, found.rates, streamed=streamed)))
    form = forms.most_common(1)[0][0] if forms else ""
    return found._replace(form=form, lines=lines, streams=streams)


def _left_out(line: Line) -> str:
    """Return why a request is no load; nothing for one that is."""
    if line.method not in (None, "POST"):
        return "other than POST"
    if line.path and line.path.endswith(NO_TEXT):
        return "that generate nothing"
    if line.status is None or not 200 <= line.status < 300:
        return "refused or failed"
    if line.output_tokens is None and not line.sent_bytes:
        return "without an answer"
    return ""


def _streamed(line: Line, terms: Terms) -> bool:
    if line.first_s is None or line.duration_s is None:
        return bool(terms.streams)
    rest = line.duration_s - line.first_s
    return rest > STREAMED_S and rest > STREAMED * line.duration_s


def _output(line: Line, terms: Terms, rates: list[float], *, streamed: bool) -> int:
    """Return the tokens of an answer, and note how fast it came."""
    if line.output_tokens is not None:
        tokens = line.output_tokens
    elif streamed:
        tokens = round((line.sent_bytes or 0) / terms.stream_bytes)
    else:
        tokens = round(max(0, (line.sent_bytes or 0) - HEADERS) / terms.answer_bytes)
    if line.max_tokens:
        tokens = min(tokens, line.max_tokens)
    if streamed and line.first_s is not None and line.duration_s is not None and tokens > 1:
        rates.append((tokens - 1) / (line.duration_s - line.first_s))
    return max(1, tokens)


def _taken(path: Path, found: Found, terms: Terms, pool: str | None, busiest_s: float | None) -> Taken:
    wanted = terms.pool or pool
    pools = Counter(line.pool for line, _ in found.rows if line.pool)
    rows = found.rows
    if wanted in pools:
        rows = [row for row in rows if row[0].pool == wanted]
    elif terms.pool:
        raise LbgenError(f"{path}: has no line of a pool {terms.pool}: {names_of(pools) or 'it names none'}")
    if len(rows) < 2:
        raise LbgenError(f"{path}: has {len(rows)} requests that count: {counted(found)}")
    turns = sorted((_turn(line, tokens, terms) for line, tokens in rows), key=lambda turn: turn[:4])
    length = busiest_s if terms.window_s is None else terms.window_s
    picked = busiest(turns, length) if length and turns[-1].at_s - turns[0].at_s > 2 * length else turns
    return Taken(found, turns, picked, wanted if wanted in pools else None, pools)


def _turn(line: Line, tokens: int, terms: Terms) -> Turn:
    known = line.prompt_tokens is not None or line.prompt_bytes is not None
    prompt = line.prompt_tokens
    if prompt is None:
        prompt = round(terms.prompt if line.prompt_bytes is None else line.prompt_bytes / terms.prompt_bytes)
    first_s = line.first_s if _streamed(line, terms) else None
    return Turn(
        line.at_s, max(1, prompt), tokens, line.session or "", known,
        first_s, line.duration_s, line.queue_s, line.server,
    )  # fmt: skip
