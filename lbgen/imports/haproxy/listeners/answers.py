"""Answers that HAProxy makes itself, as a route's ``respond``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.secrets import has_secret

if TYPE_CHECKING:
    from lbgen.readers.haproxy import Line


def fixed_answer(line: Line) -> dict[str, Any] | None:
    """Return the fixed answer of a rule; None where a file or the request makes it, or it may hold a key."""
    if line.words[1] == "return":
        body = line.after("string")
        if body is None and any(
            word in line.words for word in ("file", "lf-file", "lf-string", "errorfile", "errorfiles")
        ):
            body = line.after("lf-string")
            if body is None or "%" in body:
                return None
        status = line.after("status") or "200"
        if not status.isdecimal():
            return None
        if has_secret(body or ""):
            return None
        answer: dict[str, Any] = {"status": int(status)}
        if body:
            answer["body"] = body
        kind = line.after("content-type")
        return {**answer, **({"content_type": kind} if kind and kind != "text/plain" and body else {})}
    status = line.after("deny_status") or line.after("status") or "403"
    return {"status": int(status)} if status.isdecimal() else None
