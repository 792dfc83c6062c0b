"""Many engines in one process, each on a port of its own.

``python -m integration.many_engines HOST COUNT`` prints their ports. Every one of them answers any request
with a metrics page of the size of a real one; every fourth has a third of the others' KV cache. It ends when
its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

FILLER = "\n".join(
    f'vllm:request_prompt_tokens_bucket{{engine="0",le="{step}.0",model_name="mock"}} {step}.0'
    for step in range(600)
)
"""What the agent does not look for: 45 kB."""


def page(number: int) -> bytes:
    """Return the metrics page of one engine."""
    running, usage = (10, 0.3) if number % 4 == 0 else (30, 0.3)
    labels = '{engine="0",model_name="mock"}'
    lines = [
        FILLER,
        f"vllm:num_requests_running{labels} {running}",
        f"vllm:num_requests_waiting{labels} 0",
        f"vllm:kv_cache_usage_perc{labels} {usage}",
        f"vllm:generation_tokens_total{labels} {time.monotonic() * running * 100:.0f}",
    ]
    return ("\n".join(lines) + "\n").encode()


async def serve(host: str, number: int) -> int:
    """Open one engine; return its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                body = page(number)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, 0)
    return int(server.sockets[0].getsockname()[1])


async def main(host: str, count: int) -> None:
    """Serve until standard input ends."""
    print(*[await serve(host, number) for number in range(count)], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
