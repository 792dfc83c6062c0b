"""The OpenAI API as inference servers speak it: requests read, answers made.

The text is made of filler words, one a token; what counts is how many there are and when they come.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lbgen.lab.http_server import Header

BYTES_PER_TOKEN = 4
"""Bytes of English a token stands for, as a rule of thumb: https://platform.openai.com/tokenizer."""

DEFAULT_TOKENS = 128
"""Length of an answer for which the client sets no bound."""

SSE: tuple[Header, ...] = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
)
JSON: tuple[Header, ...] = (("content-type", "application/json"),)
DONE = b"data: [DONE]\n\n"

_WORDS = ("the", "slow", "token", "is", "not", "a", "dead", "one", "and", "every", "stream", "ends")


class BadRequestError(Exception):
    """The client's request is wrong; the text says how."""


class Ask(NamedTuple):
    """What a client asks for."""

    chat: bool
    model: str
    stream: bool
    include_usage: bool
    prompt: bytes
    """What identifies the prompt, for the prefix cache."""
    prompt_tokens: int
    output_tokens: int


def read(path: str, body: bytes, default_model: str) -> Ask:
    """Return what a request to ``…/completions`` asks for; raises `BadRequestError`."""
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadRequestError("the body is not a JSON object")
    chat = path.endswith("/chat/completions")
    prompt = _prompt(fields, "messages" if chat else "prompt")
    options = fields.get("stream_options") or {}
    return Ask(
        chat, str(fields.get("model") or default_model), fields.get("stream") is True,
        isinstance(options, dict) and options.get("include_usage") is True,
        prompt, max(1, len(prompt) // BYTES_PER_TOKEN), _output_tokens(fields),
    )  # fmt: skip


def text(first: int, count: int) -> str:
    """Return the words number `first` to `first + count - 1` of an answer."""
    return "".join(" " + _WORDS[index % len(_WORDS)] for index in range(first, first + count))


class Answer:
    """Makes the pieces of one answer."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self._created = int(time.time())
        self._id = f"{'chatcmpl' if ask.chat else 'cmpl'}-mock-{number:08d}"

    def whole(self) -> bytes:
        """Return the body of an answer that is not streamed."""
        content = text(0, self._ask.output_tokens).lstrip()
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length", "logprobs": None}
        if self._ask.chat:
            choice["message"] = {"role": "assistant", "content": content}
        else:
            choice["text"] = content
        return self._object([choice], self._usage(self._ask.output_tokens), chunk=False)

    def piece(self, first: int, count: int, *, last: bool) -> bytes:
        """Return one event with `count` tokens."""
        content = text(first, count)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length" if last else None, "logprobs": None}
        if self._ask.chat:
            delta = {"content": content}
            choice["delta"] = {"role": "assistant"} | delta if first == 0 else delta
        else:
            choice["text"] = content
        return b"data: " + self._object([choice], None, chunk=True) + b"\n\n"

    def usage(self, produced: int) -> bytes:
        """Return the event with the counts that ``include_usage`` asks for."""
        return b"data: " + self._object([], self._usage(produced), chunk=True) + b"\n\n"

    def _usage(self, produced: int) -> dict[str, int]:
        prompt = self._ask.prompt_tokens
        return {"prompt_tokens": prompt, "completion_tokens": produced, "total_tokens": prompt + produced}

    def _object(self, choices: list[dict[str, Any]], usage: dict[str, int] | None, *, chunk: bool) -> bytes:
        kind = (
            ("chat.completion.chunk" if chunk else "chat.completion") if self._ask.chat else "text_completion"
        )
        fields = {
            "id": self._id, "object": kind, "created": self._created, "model": self._ask.model,
            "choices": choices,
        }  # fmt: skip
        if usage is not None:
            fields["usage"] = usage
        return json.dumps(fields, separators=(",", ":")).encode()


def models(names: tuple[str, ...]) -> bytes:
    """Return the body of ``/v1/models``."""
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "mock"} for name in names]
    return json.dumps({"object": "list", "data": data}).encode()


def error(status: int, message: str) -> bytes:
    """Return an error in OpenAI's form."""
    kinds = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode()


def _prompt(fields: dict[str, Any], key: str) -> bytes:
    prompt = fields.get(key)
    if prompt is None:
        raise BadRequestError(f"'{key}' is missing")
    if isinstance(prompt, str):
        return prompt.encode()
    return json.dumps(prompt, separators=(",", ":")).encode()


def _output_tokens(fields: dict[str, Any]) -> int:
    given = (fields.get(key) for key in ("max_completion_tokens", "max_tokens"))
    bound = next((value for value in given if value is not None), DEFAULT_TOKENS)
    if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
        raise BadRequestError("'max_tokens' has to be a whole number from 1")
    return bound
