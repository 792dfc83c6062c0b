"""Texts for the requests of a workload: alike where the workload says that prompts are, and nowhere else.

What a balancer looks at is the first message, or the first bytes; what a prefix cache looks at are pieces of
equal size from the beginning on. So the beginning names what the request belongs to, and each further piece
is made from what identifies it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lbgen.simulate.request import Request

BYTES_PER_TOKEN = 4
"""As the mock counts a prompt."""
FIRST_BYTES = 2048
"""What of a chat is its first message at most: as much as `prefix` compares when nothing else is written."""
WORD = "tell me about slow tokens, "


def text_of(request: Request, chunk_tokens: int, number: int) -> str:
    """Return a prompt of a request's length; `number` tells it from all others behind what it shares."""
    return _filled(request, chunk_tokens, number, request.prompt_tokens * BYTES_PER_TOKEN)


def messages_of(request: Request, chunk_tokens: int, number: int) -> list[dict[str, str]]:
    """Return the same as the messages of a chat, whose JSON is as long as the prompt should be."""
    empty = _messages("", "")
    size = request.prompt_tokens * BYTES_PER_TOKEN - len(json.dumps(empty, separators=(",", ":")))
    text = _filled(request, chunk_tokens, number, size)
    shared = min(FIRST_BYTES, _shared_tokens(request, chunk_tokens) * BYTES_PER_TOKEN)
    begin = min(len(text), shared + len(_name(request)))
    return _messages(text[:begin], text[begin:])


def _filled(request: Request, chunk_tokens: int, number: int, size: int) -> str:
    pieces = [_name(request)]
    size = max(1, size)
    whole = request.chunks[: request.prompt_tokens // chunk_tokens]
    pieces += [_piece(chunk, chunk_tokens * BYTES_PER_TOKEN) for chunk in whole]
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


def _messages(first: str, rest: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": first}, {"role": "user", "content": rest}]
