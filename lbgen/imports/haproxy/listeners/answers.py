"""Answers that HAProxy makes itself, as a route's ``respond``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.secrets import has_secret

if TYPE_CHECKING:
    from lbgen.readers.haproxy import Line


def fixed_answer(line: Line) -> dict[str, Any] | None:
    """Return the fixed answer of a rule; None where a file or the request makes it, or it may hold a key."""
    if line.words[1] == "return":
        return _returned(line)
    status = line.after("deny_status") or line.after("status") or "403"
    return {"status": int(status)} if status.isdecimal() else None


def _returned(line: Line) -> dict[str, Any] | None:
    body = line.after("string") or line.after("lf-string")
    status = line.after("status") or "200"
    elsewhere = body is None and {"file", "lf-file", "errorfile", "errorfiles"} & set(line.words)
    if elsewhere or not status.isdecimal() or has_secret(body or ""):
        return None
    answer: dict[str, Any] = {"status": int(status)}
    if is_computed(line):
        return answer if answer["status"] >= 400 else None
    if body:
        answer["body"] = body
    kind = line.after("content-type")
    return {**answer, **({"content_type": kind} if kind and kind != "text/plain" and body else {})}


def is_computed(line: Line) -> bool:
    """Tell whether the request makes the answer's text: lbgen's own stands for that of an error."""
    return "%" in (line.after("lf-string") or "")
