"""A server that speaks OpenAI's API, and some of Ollama's, and keeps to itself what it made: ids are its own.

Each answer says somewhere which server gave it, and of uploads how many bytes came.
"""

from __future__ import annotations

import email
import json
import re
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from integration.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUSY_S = 0.03
"""How long an answer takes, so that requests overlap."""
CREATED = 1_700_000_000
Json = dict[str, Any]


class OpenAiServer(Background, ThreadingHTTPServer):
    """One server; a context manager."""

    request_queue_size = 256

    def __init__(self, address: str, name: str) -> None:
        super().__init__((address, 0), _Handler)
        self.name = name
        self.address = f"{address}:{self.server_port}"
        self.kept: dict[str, Any] = {}
        """What it made, by id."""
        self.paths: list[str] = []

    def handle_error(self, *_: object) -> None:
        """Say nothing of health checks that hang up."""


class _MissingError(LookupError):
    """Nobody here made an object of this id."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OpenAiServer

    def do_GET(self) -> None:
        """Answer a request of any method."""
        path = self.path.partition("?")[0]
        self.server.paths.append(path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(BUSY_S)
        for expression, answer in _ANSWERS.items():
            if found := re.fullmatch(expression, f"{self.command} {path}"):
                try:
                    answer(self, *found.groups())
                except _MissingError as missing:
                    self.whole({"error": {"message": f"no {missing} on {self.server.name}"}}, 404)
                return
        self.whole({"error": {"message": f"no {path}"}}, 404)

    do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the names that it looks for

    def json(self) -> Json:
        """Return the request's body."""
        return dict(json.loads(self.body))

    def upload(self, field: str = "file") -> bytes:
        """Return a file of the request's form."""
        kind = self.headers["Content-Type"].encode()
        form = email.message_from_bytes(b"Content-Type: " + kind + b"\r\n\r\n" + self.body)
        for part in form.walk():
            if part.get_param("name", header="content-disposition") == field:
                return bytes(part.get_payload(decode=True))
        raise AssertionError(field)

    def make(self, kind: str, **fields: Any) -> Json:
        """Keep a new object."""
        name = f"{kind}_{uuid.uuid4().hex}"
        self.server.kept[name] = {"id": name, "created_at": CREATED, **fields}
        return dict(self.server.kept[name])

    def find(self, name: str) -> Json:
        """Return an object that this server made."""
        if name not in self.server.kept:
            raise _MissingError(name)
        return dict(self.server.kept[name])

    def whole(self, body: object, status: int = 200) -> None:
        """Answer with JSON, or with bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, kind: str, pieces: Iterator[str]) -> None:
        """Answer piece by piece."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            data = piece.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _chat(asked: _Handler) -> None:
    body = asked.json()
    common = {"id": "chatcmpl-1", "created": CREATED, "model": body["model"]}
    words = ["It", " is ", asked.server.name]
    if not body.get("stream"):
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        asked.whole({**common, "object": "chat.completion", "choices": [choice]})
        return

    def events() -> Iterator[str]:
        for number, word in enumerate([*words, ""], 1):
            end = "stop" if number > len(words) else None
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": end}
            chunk = {**common, "object": "chat.completion.chunk", "choices": [choice]}
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    asked.stream("text/event-stream", events())


def _response(asked: _Handler) -> None:
    body = asked.json()
    if previous := body.get("previous_response_id"):
        asked.find(previous)
    if conversation := body.get("conversation"):
        asked.find(conversation)
    text = {"type": "output_text", "text": asked.server.name, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    made = asked.make(
        "resp", object="response", status="completed", model=body["model"], output=[item], tools=[],
        parallel_tool_calls=True, tool_choice="auto", previous_response_id=previous,
    )  # fmt: skip
    if not body.get("stream"):
        asked.whole(made)
        return
    delta = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Json] = [
        {"type": "response.created", "response": made | {"status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": asked.server.name, **delta},
        {"type": "response.completed", "response": made},
    ]
    texts = (json.dumps({**event, "sequence_number": number}) for number, event in enumerate(events))
    lines = zip(events, texts, strict=True)
    asked.stream("text/event-stream", (f"event: {one['type']}\ndata: {text}\n\n" for one, text in lines))


def _items(asked: _Handler, name: str) -> None:
    asked.find(name)
    asked.whole({"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False})


def _delete(asked: _Handler, kind: str, name: str) -> None:
    asked.find(name)
    del asked.server.kept[name]
    asked.whole({"id": name, "object": kind.removesuffix("s"), "deleted": True})


def _file(asked: _Handler) -> None:
    content = asked.upload()
    made = asked.make("file", object="file", bytes=len(content), filename=asked.server.name,
                      purpose="batch", status="processed")  # fmt: skip
    asked.server.kept[f"{made['id']}/content"] = content
    asked.whole(made)


def _content(asked: _Handler, name: str) -> None:
    asked.find(name)
    asked.whole(bytes(asked.server.kept[f"{name}/content"]))


def _batch(asked: _Handler) -> None:
    body = asked.json()
    asked.find(body["input_file_id"])
    asked.whole(asked.make("batch", object="batch", status="validating", completion_window="24h",
                           endpoint=body["endpoint"], input_file_id=body["input_file_id"]))  # fmt: skip


def _conversation(asked: _Handler) -> None:
    asked.whole(asked.make("conv", object="conversation", metadata={}))


def _embedding(asked: _Handler) -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    asked.whole({"object": "list", "data": data, "model": asked.server.name, "usage": usage})


def _picture(asked: _Handler, kind: str) -> None:
    size = len(asked.upload("image")) if kind == "edits" else 0
    asked.whole({"created": CREATED, "data": [{"url": f"http://{asked.server.name}/{size}"}]})


def _transcript(asked: _Handler) -> None:
    asked.whole({"text": f"{asked.server.name} {len(asked.upload())}"})


def _ollama(asked: _Handler, kind: str) -> None:
    body = asked.json()
    message = {"role": "assistant", "content": asked.server.name}
    said: Json = {"message": message} if kind == "chat" else {"response": asked.server.name}
    line = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z", "done": False, **said}
    if body.get("stream"):
        lines = (json.dumps({**line, "done": done}) + "\n" for done in (False, False, True))
        asked.stream("application/x-ndjson", lines)
    else:
        asked.whole({**line, "done": True})


_ANSWERS: dict[str, Callable[..., None]] = {
    r"POST /v1/chat/completions": _chat,
    r"POST /v1/embeddings": _embedding,
    r"POST /v1/images/(generations|edits)": _picture,
    r"POST /v1/audio/transcriptions": _transcript,
    r"POST /v1/audio/speech": lambda asked: asked.whole(asked.server.name.encode()),
    r"POST /v1/responses": _response,
    r"GET /v1/responses/([^/]+)/input_items": _items,
    r"POST /v1/conversations": _conversation,
    r"POST /v1/files": _file,
    r"GET /v1/files/([^/]+)/content": _content,
    r"POST /v1/batches": _batch,
    r"POST /v1/(?:batches|responses)/([^/]+)/cancel": lambda asked, name: asked.whole(asked.find(name)),
    r"GET /v1/(?:responses|conversations|files|batches)/([^/]+)": lambda asked, name: asked.whole(
        asked.find(name)
    ),
    r"DELETE /v1/(responses|conversations|files)/([^/]+)": _delete,
    r"POST /api/(chat|generate)": _ollama,
    r"POST /api/embed": lambda asked: asked.whole({"model": asked.server.name, "embeddings": [[0.5]]}),
    r"POST /api/show": lambda asked: asked.whole(
        {"details": {"family": asked.server.name}, "model_info": {}}
    ),
}
"""By method and path."""
