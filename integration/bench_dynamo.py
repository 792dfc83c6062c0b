"""A row for NVIDIA's Dynamo in the bench of peers: its frontend and KV router before the same mock servers.

Its parts find each other by files, without etcd and NATS. A worker beside each mock server stands for the
engine's (`dynamo_worker`). The mock servers publish no events: the router judges by what it has sent where.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from integration.bench_loads import WORKLOADS, Running, Subject
from integration.bench_routers import free_ports, process, wait
from integration.environments import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.boxes import MockBox

PACKAGE, VERSION = "ai-dynamo", "1.6.1"
ALONE = (f"{PACKAGE}=={VERSION}", f"{PACKAGE}-runtime=={VERSION}")
"""They ask for `aisimulate` too, of which PyPI has only a note that says where it is."""
BESIDE = (
    "aiohttp", "certifi", "kubernetes<33", "msgspec", "packaging", "prometheus-client<1", "pydantic<=2.13.5",
    "pyyaml", "pyzmq", "redis<9", "tqdm", "transformers", "uvloop", "zstandard",
)  # fmt: skip
WORKER = Path(__file__).with_name("dynamo_worker.py")
SAMPLES, SAMPLE_BYTES = 40, 4_000
"""Requests of each workload, and bytes of each message, that the tokenizer is made for."""


def subject() -> Subject:
    """Return the row."""

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        python = environment(PACKAGE, VERSION, alone=ALONE, beside=BESIDE) / "python"
        (port,) = free_ports(1)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            subprocess.run([python, WORKER, "model", folder], input=_texts(), check=True)
            environ = os.environ | {"DYN_FILE_KV": str(folder / "parts"), "DYN_LOG": "error"}
            for number, mock in enumerate(mocks):
                worker: list[str | Path] = [python, WORKER, "serve", folder, mock.url, f"gpu-{number}"]
                stack.enter_context(process(worker, environ))
            words = ["--http-host", "127.0.0.1", "--http-port", str(port), "--discovery-backend", "file"]
            words += ["--event-plane", "zmq", "--router-mode", "kv", "--no-router-kv-events"]
            words += ["--router-min-initial-workers", str(len(mocks))]
            frontend = stack.enter_context(process([python, "-m", "dynamo.frontend", *words], environ))
            url = f"http://127.0.0.1:{port}"
            wait(frontend, url, b'"mock"')
            yield Running(url, lambda: [frontend.pid])

    return Subject("kv", "Dynamo", start)


def _texts() -> bytes:
    """Return texts of the workloads."""
    plans = (work.plan(0, SAMPLES, work.speed).planned[:SAMPLES] for work in WORKLOADS.values())
    said = (one.prompt for plan in plans for one in plan)
    texts = ([text] if isinstance(text, str) else [part["content"] for part in text] for text in said)
    return json.dumps([text[:SAMPLE_BYTES] for some in texts for text in some]).encode()
