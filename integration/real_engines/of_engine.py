"""What an engine does by itself, beside what lbgen's preset says of it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from integration.real_engines.engines import completion, post
from integration.real_engines.outcomes import expect
from lbgen.engines import ENGINES, Metrics

if TYPE_CHECKING:
    from integration.real_engines.engines import Engine

LOADING_S = 600.0
IDLE_S = 30.0
CLOSE_S = 1.0
"""How far apart the preset's time and the measured one may be."""
FIGURES = tuple(name for name in Metrics._fields if isinstance(Metrics("")._asdict()[name], tuple))


def readiness(engine: Engine) -> str:
    """Watch an engine that has just been started, and ask for an answer as soon as it says it can."""
    preset = ENGINES[engine.kind.preset]
    assert preset.health_path is not None
    health, models = "", ""
    begin = time.monotonic()
    while True:
        expect(time.monotonic() < begin + LOADING_S, "it is not ready")
        listed, told = engine.status("/v1/models"), engine.status(preset.health_path)
        models = _with(models, listed)
        health = _with(health, told)
        if told == 200:
            break
        time.sleep(0.02)
    took = time.monotonic() - begin
    answer = post(engine.port, "/v1/completions", completion(4))
    expect(answer.status == 200, f"{preset.health_path} was 200 and a completion {answer.status}")
    return (
        f"`{preset.health_path}` {health} (`/v1/models` {models}) within {took:.1f} s, and answered at once"
    )


def _with(statuses: str, status: int) -> str:
    shown = str(status) if status else "refused"
    return statuses if statuses.endswith(shown) else f"{statuses}, {shown}".removeprefix(", ")


def metrics(engine: Engine) -> str:
    """Look for each name of the preset on the page."""
    preset = ENGINES[engine.kind.preset].metrics
    assert preset is not None
    post(engine.port, "/v1/completions", completion(4))
    page = b"\n" + engine.page()
    told: list[str] = []
    untold: list[str] = []
    for figure in FIGURES:
        if names := getattr(preset, figure):
            (told if any(_is_on(page, name) for name in names) else untold).append(figure)
    expect({"running", "waiting", "generated"} <= set(told), f"not on its page: {untold}")
    return f"told: {', '.join(told)}" + (f"; not told: {', '.join(untold)}" if untold else "")


def _is_on(page: bytes, name: str) -> bool:
    bare = name.partition("{")[0].encode()
    return any(b"\n" + bare + end in page for end in (b"{", b" ", b"_bucket{"))


def keep_alive(engine: Engine) -> str:
    """Measure when an idle connection is closed."""
    preset = ENGINES[engine.kind.preset]
    path = preset.health_path or "/"
    with socket.create_connection(("127.0.0.1", engine.port), timeout=IDLE_S) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: engine\r\n\r\n".encode())
        begin = time.monotonic()
        try:
            while one.recv(65_536):
                begin = time.monotonic()
        except TimeoutError:
            expect(preset.keep_alive is None, f"open after {IDLE_S:.0f} s")
            return f"open after {IDLE_S:.0f} s"
    took = time.monotonic() - begin
    expect(preset.keep_alive is not None, f"closed after {took:.1f} s")
    assert preset.keep_alive is not None
    expect(abs(took - preset.keep_alive / 1000) <= CLOSE_S, f"closed after {took:.1f} s")
    return f"closed after {took:.1f} s"
