"""The reference's page of all engines, printed from what lbgen knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import ENGINES
from lbgen.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines import AdminPaths, Engine, Metrics

_HEAD = """\
# Engines

What `engine: NAME` of a pool stands for. It decides which path says whether a model can answer, how long idle
connections are kept, and where `lbgen agent` reads how busy a server is. What a fleet says itself wins.
Those with a version under *tried* ran [behind rendered files](../engines-tried.md); what is said of the
others is from their sources.

This page is made from the table of engines; `pytest tests/fleet --update-golden` writes it anew.

| engine | what | port | health check | idle connections are kept for | requests at once | tried |
|---|---|---|---|---|---|---|
"""
_TOLD = {
    "running": "Requests that it computes",
    "waiting": "Requests that wait inside",
    "kv_usage": "Use of its KV cache",
    "generated": "Tokens that it made",
    "finished": "Requests that it answered",
    "first_token": "Times to the first token, a histogram",
    "answer": "Times of whole answers, a histogram",
    "looked_up": "Prompt tokens looked up in its prefix cache",
    "found": "Those found there",
    "missed": "Those not found there",
}


def engines_markdown() -> str:
    """Return the page."""
    rows = "".join(f"{_row(engine)}\n" for engine in ENGINES.values())
    return f"{_HEAD}{rows}\n" + "\n".join(line for engine in ENGINES.values() for line in _section(engine))


def _row(engine: Engine) -> str:
    idle = format_duration(engine.idle_timeout) + (" (it closes none)" if engine.keep_alive is None else "")
    cells = [
        f"[`{engine.name}`](#{engine.name})",
        engine.title,
        str(engine.port),
        f"`{engine.health_path}`" if engine.health_path else "TCP",
        idle,
        "depends" if engine.parallelism is None else str(engine.parallelism),
        engine.tried or "no",
    ]
    return f"| {' | '.join(cells)} |"


def _section(engine: Engine) -> Iterator[str]:
    yield f"## {engine.name}\n"
    yield (
        f"{_capital(engine.title)}."
        + ("" if engine.llm else " It generates no text: answers are short.")
        + "\n"
    )
    if engine.health_paths:
        yield f"- Paths that tell its health: {', '.join(f'`{path}`' for path in engine.health_paths)}"
    if engine.keep_alive is not None:
        yield f"- It closes connections that are idle for {format_duration(engine.keep_alive)}"
    if engine.parallelism_setting:
        yield f"- Requests at once are set by {engine.parallelism_setting}"
    if engine.metrics:
        yield from _metrics(engine.metrics)
    if engine.admin:
        yield f"- Admin paths, refused unless the pool's `admin` says otherwise: {_paths(engine.admin)}"
    yield f"- Sources: {'; '.join(engine.sources)}\n"


def _paths(admin: AdminPaths) -> str:
    shown = [f"`{path}`" for path in admin.all]
    shown += [f"`{path}` (but for GET, HEAD and OPTIONS)" for path in admin.changing]
    return ", ".join(shown)


def _capital(words: str) -> str:
    """Return words as a sentence begins; names such as llama.cpp stay."""
    return f"A{words[1:]}" if words.startswith("a ") else words


def _metrics(metrics: Metrics) -> Iterator[str]:
    place = f"`{metrics.path}`" + (f" on port {metrics.port}" if metrics.port else "")
    yield f"- Metrics: {place}" + (f", with `{metrics.needs}`" if metrics.needs else "")
    for field, words in _TOLD.items():
        if names := getattr(metrics, field):
            yield f"- {words}: {', or '.join(f'`{name}`' for name in names)}"
