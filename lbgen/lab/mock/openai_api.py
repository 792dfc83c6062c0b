"""The OpenAI API as inference servers speak it: requests read, answers made.

The text is made of filler words, one a token; what counts is how many there are and when they come.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lbgen.lab.mock.http_server import Header

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

_WORDS = " the gpu has one job and you can not see its end"
"""Each word is a token, of as many bytes as a token stands for."""


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
    """Of each choice."""
    choices: int = 1
    finish: str = "length"
    """Why it ends: ``length``, ``stop``, or ``tool_calls``."""
    tool: str | None = None
    """The function that the answer has to call."""

    @property
    def continued(self) -> bytes:
        """The prompt and its answer, as the next turn of the conversation begins."""
        if self.choices > 1 or self.tool is not None:
            return self.prompt
        content = text(0, self.output_tokens)
        content = content if self.stream else content.lstrip()
        if not self.chat:
            return self.prompt + content.encode()
        message = json.dumps({"role": "assistant", "content": content}, separators=(",", ":"))
        return self.prompt.removesuffix(b"]") + b"," + message.encode()


MOST_CHOICES = 128
"""As many as OpenAI gives at most."""
LOOKED_AT = 4096
"""Tokens of an answer in which a stop word is looked for: the words repeat long before."""


def read(path: str, body: bytes, default_model: str) -> Ask:
    """Return what a request to ``…/completions`` asks for; raises `BadRequestError`."""
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadRequestError("the body is not a JSON object")
    chat = path.endswith("/chat/completions")
    key = "messages" if chat else "prompt"
    prompt = _prompt(fields, key)
    options = fields.get("stream_options") or {}
    several = 1 if chat or not _is_batch(fields[key]) else len(fields[key])
    tokens, finish = _output(fields)
    tool = _tool(fields) if chat else None
    return Ask(
        chat, str(fields.get("model") or default_model), fields.get("stream") is True,
        isinstance(options, dict) and options.get("include_usage") is True,
        prompt, max(1, len(prompt) // BYTES_PER_TOKEN), tokens,
        several * _whole(fields, "n", 1, MOST_CHOICES), "tool_calls" if tool else finish, tool,
    )  # fmt: skip


def text(first: int, count: int) -> str:
    """Return the words number `first` to `first + count - 1` of an answer."""
    begin, size = first * BYTES_PER_TOKEN % len(_WORDS), count * BYTES_PER_TOKEN
    return (_WORDS * (size // len(_WORDS) + 2))[begin : begin + size]


class Answer:
    """Makes the pieces of one answer."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self._created = int(time.time())
        self._id = f"{'chatcmpl' if ask.chat else 'cmpl'}-mock-{number:08d}"

    def whole(self) -> bytes:
        """Return the body of an answer that is not streamed."""
        content = text(0, self._ask.output_tokens).lstrip()
        choices = [self._choice(index, content, self._ask.finish) for index in range(self._ask.choices)]
        return self._object(choices, self._usage(self._ask.output_tokens), chunk=False)

    def piece(self, first: int, count: int, *, last: bool) -> bytes:
        """Return the events with the next `count` tokens of each choice."""
        content = text(first, count)
        return b"".join(
            _event(self._object([self._delta(index, content, first == 0, last)], None, chunk=True))
            for index in range(self._ask.choices)
        )

    def usage(self, produced: int) -> bytes:
        """Return the event with the counts that ``include_usage`` asks for."""
        return _event(self._object([], self._usage(produced), chunk=True))

    def _choice(self, index: int, content: str, finish: str) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "finish_reason": finish, "logprobs": None}
        if not self._ask.chat:
            return choice | {"text": content}
        if self._ask.tool is None:
            return choice | {"message": {"role": "assistant", "content": content}}
        call = self._call(index, json.dumps({"text": content}))
        return choice | {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}

    def _delta(self, index: int, content: str, begins: bool, last: bool) -> dict[str, Any]:
        finish = self._ask.finish if last else None
        choice: dict[str, Any] = {"index": index, "finish_reason": finish, "logprobs": None}
        if not self._ask.chat:
            return choice | {"text": content}
        role = {"role": "assistant"} if begins else {}
        if self._ask.tool is None:
            return choice | {"delta": role | {"content": content}}
        arguments = ('{"text": "' if begins else "") + content + ('"}' if last else "")
        call = self._call(index, arguments) if begins else {"function": {"arguments": arguments}}
        nothing = {"content": None} if begins else {}
        return choice | {"delta": role | nothing | {"tool_calls": [{"index": 0} | call]}}

    def _call(self, index: int, arguments: str) -> dict[str, Any]:
        function = {"name": self._ask.tool, "arguments": arguments}
        return {"id": f"call_{self._id}-{index}", "type": "function", "function": function}

    def _usage(self, produced: int) -> dict[str, int]:
        prompt, made = self._ask.prompt_tokens, produced * self._ask.choices
        return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}

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
    return json.dumps({"object": "list", "data": [_model(name) for name in names]}).encode()


def model(name: str) -> bytes:
    """Return the body of ``/v1/models/NAME``."""
    return json.dumps(_model(name)).encode()


def error(status: int, message: str) -> bytes:
    """Return an error in OpenAI's form."""
    kinds = {
        400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
        404: "not_found_error", 429: "rate_limit_error",
    }  # fmt: skip
    kind = kinds.get(status, "server_error")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mock"}


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _prompt(fields: dict[str, Any], key: str) -> bytes:
    prompt = fields.get(key)
    if prompt is None:
        raise BadRequestError(f"'{key}' is missing")
    if key == "messages" and not (isinstance(prompt, list) and prompt and isinstance(prompt[0], dict)):
        raise BadRequestError("'messages' has to be a list of messages")
    if isinstance(prompt, str):
        return prompt.encode()
    return json.dumps(prompt, separators=(",", ":")).encode()


def _is_batch(prompt: object) -> bool:
    """Tell whether these are several prompts: texts, or lists of tokens."""
    return isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], str | list)


def _output(fields: dict[str, Any]) -> tuple[int, str]:
    """Return how many tokens an answer has, and why it ends there."""
    key = next((key for key in ("max_completion_tokens", "max_tokens") if fields.get(key) is not None), None)
    bound = DEFAULT_TOKENS if key is None else _whole(fields, key, 1, None)
    stops = fields.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise BadRequestError("'stop' has to be a text or a list of texts")
    begin = text(0, min(bound, LOOKED_AT)) if stops else ""
    cuts = [at for stop in stops if (at := begin.find(stop)) >= 0]
    if not cuts:
        return bound, "length" if key else "stop"
    # Of whole words alone; an answer of none at all would be a stream without a first token.
    return max(1, len(begin[: min(cuts)].split())), "stop"


def _tool(fields: dict[str, Any]) -> str | None:
    """Return the function that an answer has to call: the one named, or the first where one is required."""
    choice, tools = fields.get("tool_choice"), fields.get("tools") or []
    if choice is None or choice in ("none", "auto"):
        return None
    try:
        found = (choice if isinstance(choice, dict) else tools[0])["function"]["name"]
    except (KeyError, IndexError, TypeError):
        raise BadRequestError("'tool_choice' asks for a function, and 'tools' has none") from None
    return str(found)


def _whole(fields: dict[str, Any], key: str, default: int, most: int | None) -> int:
    value = fields.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (most and value > most):
        raise BadRequestError(f"'{key}' has to be a whole number from 1" + (f" to {most}" if most else ""))
    return value
