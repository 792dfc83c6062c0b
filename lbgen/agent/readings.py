"""What an engine says of itself: a few figures out of a page of Prometheus text."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.engines import Metrics


MOST_REQUESTS = 100_000
"""No engine computes, or lets wait, more requests than this: a larger count is a fault of its metrics."""
MOST_TOKENS = 10**15
"""The same of tokens since its start: a million a second for thirty years."""
FULL = 1.05
"""A cache may be counted a little above full, because its parts are counted one after another."""


class Reading(NamedTuple):
    """One look at one engine; None: it does not tell, or tells what cannot be."""

    running: float | None
    waiting: float | None
    kv_usage: float | None
    """Share of the KV cache in use, 0 to 1."""
    generated: float | None = None
    """Output tokens since the engine was started."""


def read_page(page: bytes, metrics: "Metrics") -> Reading:
    """Return the figures on a metrics page.

    A search for the few names that are needed: a full parser takes 7 ms for the 52 kB
    of a busy engine, and 1,000 servers a second leave 2 ms each on two cores.
    """
    page = b"\n" + page
    return Reading(
        _within(_first(page, metrics.running, sum), MOST_REQUESTS),
        _within(_first(page, metrics.waiting, sum), MOST_REQUESTS),
        _within(_first(page, metrics.kv_usage, _mean), FULL),
        _within(_first(page, metrics.generated, sum), MOST_TOKENS),
    )


def _within(value: float | None, most: float) -> float | None:
    """Return a figure that an engine can have; None for any other, `NaN` and infinity among them."""
    return value if value is not None and 0 <= value <= most else None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _first(page: bytes, names: tuple[str, ...], combine: "Callable[[list[float]], float]") -> float | None:
    """Return the first metric that is there; several label sets (data-parallel ranks) become one figure."""
    for name in names:
        bare, _, label = name.rstrip("}").partition("{")
        values = list(_values(page, bare.encode(), label.encode()))
        if values:
            return float(combine(values))
    return None


def _values(page: bytes, name: bytes, label: bytes) -> "Iterator[float]":
    """Yield the values of a metric; `label`, such as ``type="used"``, stands among any others (Triton's)."""
    at = page.find(b"\n" + name)
    while at >= 0:
        start = at + 1 + len(name)
        end = page.find(b"\n", start)
        line = page[start : end if end >= 0 else len(page)]
        value = _value(line)
        if value is not None and label in line:
            yield value
        at = page.find(b"\n" + name, start)


def _value(line: bytes) -> float | None:
    """Return the value of ``{labels} 12 1700000000`` or `` 12``; None when it is another metric's line."""
    if line[:1] == b"{":
        line = line[line.rfind(b"}") + 1 :]
    elif line[:1] not in {b" ", b"\t"}:
        return None  # a longer name that begins alike
    words = line.split()
    try:
        return float(words[0])
    except (ValueError, IndexError):
        return None
