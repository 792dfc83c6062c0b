"""A server that speaks Anthropic's Messages API as vLLM and others do: whole, as a stream, and its errors."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from integration.background import Background

WORDS = ("One ", "piece ", "after ", "the ", "other.")


class AnthropicServer(Background, ThreadingHTTPServer):
    """One server; a context manager."""

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Handler)
        self.address = f"{address}:{self.server_port}"
        self.seen: list[dict[str, str]] = []
        """The headers of each request, names in lower case."""
        self.go_on = threading.Event()
        """A stream's first word goes out at once, the others when this is set."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AnthropicServer

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        said = asked["messages"][-1]["content"]
        if said == "overloaded":
            error = {"type": "overloaded_error", "message": "Overloaded", "details": None}
            self._whole(529, {"type": "error", "error": error, "request_id": "req_1"})
        elif self.path.startswith("/v1/messages/count_tokens"):
            self._whole(200, {"input_tokens": len(said.split())})
        elif asked.get("stream"):
            self._stream(asked["model"])
        else:
            content = [{"type": "text", "text": "".join(WORDS)}]
            self._whole(200, _message(asked["model"]) | {"content": content, "stop_reason": "end_turn"})

    def _whole(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("request-id", "req_1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, model: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._event("message_start", message=_message(model))
        self._event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for number, word in enumerate(WORDS):
            if number:
                self.server.go_on.wait(30)
            self._event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        self._event("content_block_stop", index=0)
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        self._event("message_delta", delta=delta, usage={"output_tokens": len(WORDS)})
        self._event("message_stop")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, kind: str, **fields: Any) -> None:
        text = f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _message(model: str) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    common = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    return {**common, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
