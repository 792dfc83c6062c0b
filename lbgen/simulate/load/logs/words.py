"""What was read of an access log, what it does not tell, and what was assumed, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from lbgen.simulate.load.logs.lines import COMBINED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.simulate.load.logs.lines import Line
    from lbgen.simulate.load.logs.replay import Turn
    from lbgen.simulate.load.logs.terms import Terms

MOST_NAMED = 5
"""Bad lines whose numbers are said."""


class Found(NamedTuple):
    """What was read of a log."""

    rows: list[tuple[Line, int]]
    """Lines that count, with their output tokens."""
    form: str
    lines: int
    bad: list[tuple[int, str]]
    left_out: Counter[str]
    streams: int
    rates: list[float]
    """Tokens a second of the streams whose times are known."""


class Taken(NamedTuple):
    """What of a log is the load."""

    found: Found
    turns: list[Turn]
    """Of the pool."""
    picked: list[Turn]
    """Of the stretch that counts."""
    pool: str | None
    """None: the lines of all pools are taken together."""
    pools: Mapping[str, int]


def said(taken: Taken, terms: Terms) -> Iterator[str]:
    """Yield what was read, and for each thing that the log does not tell what is taken in its place."""
    found, turns, picked, pool, pools = taken
    whose = f" of {pool}" if pool else ""
    yield f"{len(turns):,} requests{whose}, {_moment(turns[0])} to {_moment(turns[-1])}: {counted(found)}"
    if len(picked) < len(turns):
        span = picked[-1].at_s - picked[0].at_s
        yield (
            f"its busiest {span / 60:.0f} minutes count, from {_moment(picked[0])}: {len(picked) / span:.4g} "
            f"requests/s; all of it has {len(turns) / (turns[-1].at_s - turns[0].at_s):.4g} (window=0: all)"
        )
    if not pool and len(pools) > 1:
        yield f"the lines of all pools count: pool=NAME picks one of {names_of(pools)}"
    yield from _of_times(found)
    yield from _of_prompts(found, terms)
    yield from _of_answers(found, terms)
    yield from _of_conversations(picked, terms)


def _of_times(found: Found) -> Iterator[str]:
    whole = all(line.whole_seconds for line, _ in found.rows)
    spread = ", spread over its second" if whole else ""
    if found.form == COMBINED:
        yield f"arrivals: the line's time{spread}; how long requests took is not in the log"
    else:
        lacking = sum(line.duration_s is None for line, _ in found.rows)
        without = f"; {lacking:,} lines have no duration: as if it were 0" if lacking else ""
        yield f"arrivals: when the request came, by time and duration{spread}{without}"


def _of_prompts(found: Found, terms: Terms) -> Iterator[str]:
    unknown = sum(line.prompt_tokens is None and line.prompt_bytes is None for line, _ in found.rows)
    by_bytes = sum(line.prompt_tokens is None and line.prompt_bytes is not None for line, _ in found.rows)
    if unknown:
        yield f"prompts: {unknown:,} lines do not tell their size: {terms.prompt:g} tokens each (prompt=N)"
    if by_bytes:
        yield f"prompts: {terms.prompt_bytes:g} bytes of the body are a token (prompt_bytes=N)"


def _of_answers(found: Found, terms: Terms) -> Iterator[str]:
    counted = sum(line.output_tokens is not None for line, _ in found.rows)
    if counted == len(found.rows):
        return
    timed = any(line.first_s is not None for line, _ in found.rows)
    if timed:
        how = f"{found.streams:,} are streams, by their times"
    else:
        how = "all are taken for streams (streams=0: none)" if found.streams else "none is taken for a stream"
    pace = f"; by that, streams bring {_median(found.rates):.0f} tokens/s (median)" if found.rates else ""
    yield (
        f"answers: {terms.stream_bytes:g} bytes of a stream are a token, {terms.answer_bytes:g} of another "
        f"answer (stream_bytes=N, answer_bytes=N); {how}{pace}"
    )


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _of_conversations(turns: list[Turn], terms: Terms) -> Iterator[str]:
    names = {turn.session for turn in turns if turn.session}
    if not names:
        field = f"no line has a field {terms.session}" if terms.session else "not in the log (session=FIELD)"
        yield f"conversations: {field}; every request stands alone, without prefix hits"
        return
    repeats = "their turns are taken to repeat what was said before"
    sized = any(turn.sized for turn in turns)
    yield (
        f"conversations: {len(names):,}; "
        f"{repeats if sized else 'what they repeat is not known without the size of prompts'}"
    )


def counted(found: Found) -> str:
    """Return how many lines there are, and why some do not count."""
    parts = [f"{count:,} {why}" for why, count in found.left_out.most_common()]
    if found.bad:
        numbers = ", ".join(str(number) for number, _ in found.bad[:MOST_NAMED])
        more = ", ..." if len(found.bad) > MOST_NAMED else ""
        first = found.bad[0]
        parts.append(f"{len(found.bad):,} cannot be read (line {numbers}{more}; {first[0]} {first[1]})")
    out = f"; left out: {', '.join(parts)}" if parts else ""
    return f"{found.lines:,} lines of {found.form or 'no known form'}{out}"


def names_of(pools: Mapping[str, int]) -> str:
    """Return the names of pools for a message."""
    return ", ".join(sorted(pools))


def _moment(turn: Turn) -> str:
    return f"{datetime.fromtimestamp(turn.at_s, UTC):%Y-%m-%d %H:%M:%S}"
