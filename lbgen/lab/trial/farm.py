"""Several mock GPU servers in one process: ``python3 -m lbgen.lab.trial.farm SETTINGS...``.

Each word is the JSON of one server's settings. Prints their ports as JSON, and ends when standard input does,
so that none outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from typing import TYPE_CHECKING

from lbgen.lab.mock_gpu import raise_descriptor_limit
from lbgen.lab.mock_server import MockGpu, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


async def serve(words: Sequence[str]) -> None:
    """Run until standard input ends."""
    loop = asyncio.get_running_loop()
    mocks = [MockGpu(Settings(**json.loads(word))) for word in words]
    ports = [await mock.listen("127.0.0.1", 0) for mock in mocks]
    print(json.dumps(ports), flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for whoever started us
    raise_descriptor_limit()
    gc.set_threshold(50_000, 50, 50)
    asyncio.run(serve(sys.argv[1:]))
