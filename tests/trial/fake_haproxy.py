"""Just enough of HAProxy for trials on machines without it: passes connections on to servers in turn."""

from __future__ import annotations

import asyncio
import re
import sys
from itertools import count, cycle
from pathlib import Path

from lbgen.targets.common.answers import ANSWERS


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(text: str) -> None:
    numbers, refuses = count(1), "every third" in text
    servers = cycle(re.findall(r"^\s+server \S+ ([\d.]+):(\d+)", text, re.MULTILINE))

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if next(numbers) % 3 == 0 and refuses:
            await reader.readuntil(b"\r\n\r\n")
            body = ANSWERS["unavailable"].body
            writer.write(f"HTTP/1.1 503 No\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
            writer.close()
            return
        host, port = next(servers)
        there = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    binds = re.findall(r"^\s+bind ([\d.]+):(\d+)", text, re.MULTILINE)
    for host, port in binds:
        await asyncio.start_server(connected, host, int(port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    if "-v" in sys.argv:
        print("HAProxy version 3.2.0 2025/05/28")
        sys.exit()
    text = Path(sys.argv[-1]).read_text()
    if "bogus" in text:
        sys.exit(f"[ALERT] (1) : config : parsing [{sys.argv[-1]}:9] : unknown keyword 'bogus'")
    asyncio.run(serve(text))
