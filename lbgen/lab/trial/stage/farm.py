"""Several mock GPU servers in one process: ``python3 -m lbgen.lab.trial.stage.farm CERTIFICATE SETTINGS...``.

The first word is a PEM file, or empty: without TLS; each further one the JSON of one server's settings.
Prints each server's port and that with TLS (or null) as JSON, and ends when standard input does, so that none
outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING

from lbgen.descriptors import raise_descriptor_limit
from lbgen.lab.mock.mock_gpu import collect_rarely, server_context
from lbgen.lab.mock.mock_server import MockGpu, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


async def serve(certificate: str, words: Sequence[str]) -> None:
    """Run until standard input ends."""
    loop = asyncio.get_running_loop()
    tls = server_context(certificate) if certificate else None
    ports = []
    for mock in [MockGpu(Settings(**json.loads(word))) for word in words]:
        plain = await mock.listen("127.0.0.1", 0)
        ports.append((plain, await mock.listen("127.0.0.1", 0, tls) if tls else None))
    print(json.dumps(ports), flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us
    raise_descriptor_limit()
    collect_rarely()
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
