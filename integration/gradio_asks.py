"""Gradio's Python client, several at once, as JSON: ``gradio_asks.py URL CLIENTS CALLS``."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from gradio_client import Client


def talk(_: int) -> list[str]:
    """Call several times in one session."""
    client = Client(URL, verbose=False)
    return [client.predict(api_name="/count") for _ in range(CALLS)]


URL, CLIENTS, CALLS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with ThreadPoolExecutor(8) as threads:
    print(json.dumps(list(threads.map(talk, range(CLIENTS)))))
