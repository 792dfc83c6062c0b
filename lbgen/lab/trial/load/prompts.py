"""Texts for the requests of a workload: alike where the workload says that prompts are, and nowhere else.

What requests share is the same bytes: the parts of a conversation, or the pieces of a recorded prompt. No
session's name stands before what it shares with others.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from lbgen.lab.mock.openai_api import BYTES_PER_TOKEN
from lbgen.lab.mock.openai_api import text as answer_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from lbgen.simulate.load.request import Request

FIRST_BYTES = 2048
"""What of a recorded chat is its first message at most."""
WORD = "tell me about slow tokens, "


def text_of(request: Request, chunk_tokens: int, number: int) -> str:
    """Return a prompt of a request's length; `number` tells it from all others behind what it shares."""
    if request.parts:
        return "".join(text for _, text in _said(request, number, lambda _: 0))
    return _filled(request, chunk_tokens, number, request.prompt_tokens * BYTES_PER_TOKEN)


def messages_of(request: Request, chunk_tokens: int, number: int) -> list[dict[str, str]]:
    """Return the same as the messages of a chat, whose JSON is as long as the prompt should be."""
    if request.parts:
        return [_message(role, text) for role, text in _said(request, number, _around, used=1)]
    empty = [_message("system", ""), _message("user", "")]
    size = request.prompt_tokens * BYTES_PER_TOKEN - len(_json(empty))
    text = _filled(request, chunk_tokens, number, size)
    begin = min(len(text), FIRST_BYTES, _shared_tokens(request, chunk_tokens) * BYTES_PER_TOKEN)
    begin = begin or len(_name(request))
    return [_message("system", text[:begin]), _message("user", text[begin:])]


def _said(
    request: Request, number: int, around: Callable[[str], int], used: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield role and text of each part, so that each ends where its tokens do.

    `around`: bytes that a message of this role has beside its text; `used`: those before the first one.
    """
    due = 0
    for part in request.parts:
        due += part.tokens * BYTES_PER_TOKEN
        left = max(1, due - used - around(part.role))
        text = (
            answer_text(0, part.answer)
            if part.answer
            else _piece(part.identity or f"{number} of {request.prefix}", left)
        )
        used += around(part.role) + len(text)
        yield part.role, text


def _filled(request: Request, chunk_tokens: int, number: int, size: int) -> str:
    size = max(1, size)
    whole = request.chunks[: request.prompt_tokens // chunk_tokens]
    pieces = [_piece(chunk, chunk_tokens * BYTES_PER_TOKEN) for chunk in whole] or [_name(request)]
    left = size - sum(map(len, pieces))
    if left > 0:
        pieces.append(_piece(f"{number} of {request.session or request.prefix}", left))
    return "".join(pieces)[:size]


def _name(request: Request) -> str:
    return f"{request.prefix}: " if request.prefix else ""


def _shared_tokens(request: Request, chunk_tokens: int) -> int:
    return min(len(request.chunks), request.prompt_tokens // chunk_tokens) * chunk_tokens


@lru_cache(maxsize=4096)
def _piece(identity: Hashable, size: int) -> str:
    begin = "".join(c if c.isalnum() else " " for c in str(identity)) + f" {WORD}"
    return (begin * (size // len(begin) + 1))[:size]


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


@lru_cache(maxsize=8)
def _around(role: str) -> int:
    """Return the bytes of a message without text, with the comma or bracket behind it."""
    return len(_json(_message(role, ""))) + 1


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
