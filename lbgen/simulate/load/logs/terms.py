"""How an access log is read, as the command line says it behind the file's name."""

from __future__ import annotations

import re
from typing import NamedTuple

from lbgen.problems import LbgenError
from lbgen.units import parse_duration


class Terms(NamedTuple):
    """How a log is read; each can be written behind its name: ``access.log:prompt=800,pool=chat``."""

    stream_bytes: float = 240
    """Bytes of a stream that stand for one token: what vLLM writes for one, in OpenAI's form."""
    answer_bytes: float = 4
    """Bytes of an answer that is no stream that stand for one token of text."""
    prompt_bytes: float = 4
    """Bytes of a request's body that stand for one token."""
    prompt: float = 512
    """Tokens of a prompt whose size the log does not tell."""
    streams: float = 1
    """0: where the log cannot tell, answers are no streams."""
    session: str | None = None
    """The field that names the conversation."""
    pool: str | None = None
    """Whose lines count."""
    window_s: float | None = None
    """Only the busiest stretch of such a length counts; 0: the whole log."""


def terms_of(text: str) -> tuple[str, Terms]:
    """Return a log's file and terms from ``FILE[:key=value,...]``; raises `LbgenError`."""
    name, words = parts_of(text)
    values = dict(_term(*word.split("=", 1)) for word in words)
    return name, Terms()._replace(**values)  # type: ignore[arg-type]  # checked one by one


def parts_of(text: str) -> tuple[str, list[str]]:
    """Return a log's file, and each ``key=value`` behind it."""
    match = re.fullmatch(r"(.+?):((?:[a-z_]+=[^,]*)(?:,[a-z_]+=[^,]*)*)", text)
    return (match[1], match[2].split(",")) if match else (text, [])


def _term(key: str, value: str) -> tuple[str, object]:
    if key in ("session", "pool") and value:
        return key, value
    if key == "window":
        try:
            return "window_s", parse_duration(value) / 1000 if value != "0" else 0.0
        except ValueError as error:
            raise LbgenError(f"window: {error}") from None
    known = [name.removesuffix("_s") for name in Terms._fields]
    if key not in known:
        raise LbgenError(f"'{key}' cannot be set for a log: write one of {', '.join(known)} as key=value")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    least = 0 if key in ("streams", "prompt") else 0.1
    if not least <= number <= 1e6:
        raise LbgenError(f"{key} cannot be '{value}'")
    return key, number
