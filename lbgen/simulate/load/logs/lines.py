"""Lines of access logs: lbgen's own and other JSON, HAProxy's `httplog`, and the combined format.

Only what sizing needs is kept: times, sizes, status and names of pools and conversations. Neither queries nor
addresses are, nor anything else of a line.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_LINE = 65_536
"""Characters."""
JSON, HTTPLOG, COMBINED = "JSON", "HAProxy's httplog", "combined"


class Line(NamedTuple):
    """One request, as a log tells it. Times are seconds; None: the line does not say."""

    form: str
    at_s: float
    """When the request came, else, without a duration, when the line was written; since the epoch."""
    method: str | None
    path: str | None
    """Without the query."""
    status: int | None
    pool: str | None = None
    whole_seconds: bool = False
    """The time was cut to whole seconds."""
    duration_s: float | None = None
    first_s: float | None = None
    """From the request to the answer's first byte."""
    sent_bytes: int | None = None
    prompt_bytes: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    max_tokens: int | None = None
    session: str | None = None
    queue_s: float | None = None
    """How long the balancer had it before a server did."""
    server: str | None = None


def parsed(text: str, session: str | None = None) -> Line:
    """Return what a line says; raises `ValueError` in words.

    `session`: the field of JSON lines that names the conversation; None: the usual ones.
    """
    if len(text) > LONGEST_LINE:
        raise ValueError(f"has more than {LONGEST_LINE:,} characters")
    begin = text.find("{")
    if begin >= 0 and text.endswith("}"):
        try:
            fields = json.loads(text[begin:])
        except (ValueError, RecursionError):
            fields = None
        if isinstance(fields, dict):
            return _of_json(fields, session)
    if match := _HTTPLOG.search(text):
        return _of_httplog(match)
    if match := _COMBINED.search(text):
        return _of_combined(match)
    raise ValueError("is no line of an access log: neither JSON, httplog nor combined")


TIMES = ("time", "time_iso8601", "@timestamp", "timestamp", "ts", "msec", "time_local")
DURATIONS = ("duration_s", "request_time", "duration")
METHODS = ("method", "request_method")
PATHS = ("path", "uri", "request_uri")
POOLS = ("pool", "backend", "upstream_name")
FIRSTS = ("upstream_first_byte_s", "upstream_header_time")
SENT = ("bytes_sent", "body_bytes_sent", "bytes")
PROMPT_BYTES = ("prompt_bytes", "request_body_bytes", "request_length")
PROMPT_TOKENS = ("prompt_tokens", "input_tokens")
OUTPUT_TOKENS = ("output_tokens", "completion_tokens")
MAX_TOKENS = ("max_tokens", "max_completion_tokens")
TOTALS = ("upstream_total_s", "upstream_response_time")
"""How long the server had the request, from the connection on."""
SERVERS = ("server", "server_name", "upstream_addr")
SESSIONS = ("conversation", "session", "session_id")
"""Names of fields, the first that is there counts."""

MOST_TOKENS = 10_000_000
MOST_BYTES = 1 << 40
MOST_SECONDS = 7 * 86_400.0


def _of_json(fields: dict[str, Any], session: str | None) -> Line:
    at_s, whole = _time(_first(fields, TIMES))
    duration = _number(_first(fields, DURATIONS), MOST_SECONDS)
    first, total = (_number(_first(fields, names), MOST_SECONDS) for names in (FIRSTS, TOTALS))
    queued = None if duration is None or total is None else max(0.0, duration - total)
    request = str(fields.get("request") or "").split(" ")
    named = request if len(request) == 3 else [None, None]
    path = _text(_first(fields, PATHS)) or named[1]
    return Line(
        JSON,
        at_s - (duration or 0.0),
        _text(_first(fields, METHODS)) or named[0],
        path and path.partition("?")[0],
        _whole(_first(fields, ("status",)), 999),
        _text(_first(fields, POOLS)),
        whole,
        duration,
        None if first is None else first + (queued or 0.0),
        _whole(_first(fields, SENT), MOST_BYTES),
        _whole(_first(fields, PROMPT_BYTES), MOST_BYTES),
        _whole(_first(fields, PROMPT_TOKENS), MOST_TOKENS),
        _whole(_first(fields, OUTPUT_TOKENS), MOST_TOKENS),
        _whole(_first(fields, MAX_TOKENS), MOST_TOKENS),
        _text(_first(fields, (session,) if session else SESSIONS)),
        queued,
        _text(_first(fields, SERVERS)),
    )


_HTTPLOG = re.compile(
    r"\[(?P<time>\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d\.\d{3})\] (?P<frontend>\S+) "
    r"(?P<backend>[^/ ]+)/(?P<server>\S+) "
    r"(?P<times>-?\d+/-?\d+/-?\d+/-?\d+/\+?-?\d+) (?P<status>-?\d{1,3}) \+?(?P<bytes>\d+) \S+ \S+ \S{4} "
    r'\S+ \S+ .*?"(?P<method>[A-Z]+|<BADREQ>)(?: (?P<path>\S+))?',
    re.ASCII,
)
_COMBINED = re.compile(
    r"\[(?P<time>\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})\] "
    r'"(?P<method>[A-Z]+|-)(?: (?P<path>[^" ]*))?[^"]*" (?P<status>-?\d{1,3}) (?P<bytes>\d+|-)',
    re.ASCII,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _of_httplog(match: re.Match[str]) -> Line:
    request, queued, connect, first, total = (int(one.lstrip("+")) for one in match["times"].split("/"))
    known = first >= 0
    return Line(
        HTTPLOG,
        _clock(match["time"]),
        match["method"],
        (match["path"] or "").partition("?")[0] or None,
        int(match["status"]),
        match["backend"],
        duration_s=total / 1000 if total >= 0 else None,
        first_s=(max(0, request) + max(0, queued) + max(0, connect) + first) / 1000 if known else None,
        sent_bytes=int(match["bytes"]),
        queue_s=max(0, queued) / 1000,
        server=None if match["server"].startswith("<") else match["server"],
    )


def _of_combined(match: re.Match[str]) -> Line:
    zone = match["zone"]
    shift = int(zone[:1] + "1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
    return Line(
        COMBINED,
        _clock(match["time"]) - shift,
        match["method"],
        (match["path"] or "").partition("?")[0] or None,
        int(match["status"]),
        whole_seconds=True,
        sent_bytes=None if match["bytes"] == "-" else int(match["bytes"]),
    )


def _clock(text: str) -> float:
    """Return the seconds of ``06/Feb/2026:12:14:14.655``, taken as UTC; raises `ValueError`."""
    month = text[3:6].capitalize()
    if month not in _MONTHS:
        raise ValueError(f"'{text[:11]}' is not a date")
    at = datetime(
        int(text[7:11]), _MONTHS.index(month) + 1, int(text[:2]), int(text[12:14]), int(text[15:17]),
        min(59, int(text[18:20])), tzinfo=UTC,
    )  # fmt: skip
    return at.timestamp() + float(text[20:] or 0)


def _time(value: object) -> tuple[float, bool]:
    """Return seconds since the epoch, and whether they are whole; raises `ValueError`."""
    text = str(value)
    if value is None:
        raise ValueError(f"has no time: none of {', '.join(TIMES)}")
    if match := re.fullmatch(r"(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d) ([+-]\d{4})", text, re.ASCII):
        text = f"{datetime.fromtimestamp(_clock(match[1]), UTC):%Y-%m-%dT%H:%M:%S}{match[2]}"
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError("has a time that cannot be read") from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), not at.microsecond
    if seconds > 1e11:  # milliseconds
        seconds /= 1000
    if not 0 <= seconds < 1e11:
        raise ValueError("has a time that cannot be read")
    return seconds, seconds == int(seconds)


def _first(fields: dict[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401 - anybody's JSON
    return next((fields[name] for name in names if fields.get(name) not in (None, "", "-")), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None if value is None else str(value)[:200]


def _number(value: object, most: float) -> float | None:
    """Return a number from 0 on; of several tries, as NGINX lists them, the last; None for none."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(re.split(r"[ ,:]+", str(value).strip())[-1])
    except ValueError:
        return None
    return number if 0 <= number <= most else None


def _whole(value: object, most: int) -> int | None:
    number = _number(value, most)
    return None if number is None else int(number)
