"""The mock says what it saw, and gives a WebSocket its bytes back."""

from __future__ import annotations

import asyncio
import hashlib
import json


def test_a_request_is_answered_with_itself(with_lab):
    async def ask(lab):
        headers = {"x-mock-echo": json.dumps({"X-More": "1"}), "X-Given": "a b"}
        async with lab.client.put(f"{lab.url}/any/path?q=1", data=b"body", headers=headers) as answer:
            assert answer.headers["x-more"] == "1"
            return await answer.json()

    seen = with_lab(ask)
    assert (seen["method"], seen["target"]) == ("PUT", "/any/path?q=1")
    assert ["x-given", "a b"] in seen["headers"]
    assert seen["body_sha256"] == hashlib.sha256(b"body").hexdigest()


def test_a_websocket_gets_its_bytes_back(with_lab):
    async def ask(lab):
        reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
        lines = ("GET / HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: WebSocket", "x-mock-echo: {}")
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        writer.write("\r\n".join((*lines, key, "", "")).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ping")
        back = await reader.readexactly(4)
        writer.close()
        return head, back

    head, back = with_lab(ask)
    assert head.startswith(b"HTTP/1.1 101 ")
    # The example of RFC 6455, 1.3.
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
    assert back == b"ping"
