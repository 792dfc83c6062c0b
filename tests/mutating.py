"""A pytest plugin that tries mutants in forks of one process, in which everything is imported and collected.

A first fork tells which functions of `lbgen` each test calls. A mutant is put into the functions or values of
a fork, and the tests that call the function, or any of the file, are run there, the quickest first, until one
fails. `tests/mutate.py` starts it.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants import assignment, home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ORDERS, FOUND = "LBGEN_MUTANTS", "LBGEN_VERDICTS"
"""Files: the mutants as JSON, and where the verdicts go, one a line."""
CPU_S, WALL_S = 60, 600
UNKNOWN = "?"
"""What a fork says that could not try its mutant."""


class Trace(NamedTuple):
    """What a test did without any mutant."""

    seconds: float
    passed: bool
    called: list[tuple[str, int]]
    """Functions by file and first line."""


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try the mutants in place of running the tests."""
    orders = json.loads(Path(os.environ[ORDERS]).read_text())
    kept = Path(orders["traces"])
    known = json.loads(kept.read_text()) if kept.exists() else {}
    new = [item for item in session.items if item.nodeid not in known]
    if new:
        known |= json.loads(_in_fork(lambda: json.dumps(_trace(new)), WALL_S * 6))
        kept.write_text(json.dumps(known))
    traces = {name: Trace(*one) for name, one in known.items()}
    for number, order in enumerate(orders["mutants"]):
        said = _tried(session, order, traces)
        with Path(os.environ[FOUND]).open("a") as found:
            found.write(json.dumps([number, *said]) + "\n")
    return True


def _tried(
    session: pytest.Session, order: dict[str, Any], traces: dict[str, Trace]
) -> tuple[bool | None, str]:
    """Tell whether a test notices, and which; None where nobody can tell here."""
    place = Path(order["path"])
    whole = place.read_text()
    first, index = home(order["node"], whole), assignment(order["node"], whole)
    if first is None and index is None:
        return None, ""
    items = _callers(session, str(place), first, traces)
    if not items:
        return (None if first is None else False), ""
    place.write_text(order["text"])

    def put() -> bool:
        if first is not None:
            return _patched(place, whole, order["text"])
        _rebound(place, ast.parse(order["text"]).body[index or 0])
        return True

    try:
        said = _in_fork(lambda: _noticed(session, items, put), WALL_S)
    finally:
        place.write_text(whole)
    if said.startswith(UNKNOWN) or (
        first is None and not said
    ):  # what was made of a value at import is as it was
        return None, ""
    return said != "", said


def _callers(
    session: pytest.Session, path: str, first: int | None, traces: dict[str, Trace]
) -> list[pytest.Item]:
    """Return the tests that call a function, or any of the file, the quickest first."""
    chosen = [
        item for item in session.items
        if (one := traces[item.nodeid]).passed
        and any(file == path and first in {None, line} for file, line in one.called)
    ]  # fmt: skip
    return sorted(chosen, key=lambda item: traces[item.nodeid].seconds)


def _noticed(session: pytest.Session, items: list[pytest.Item], put: Callable[[], bool]) -> str:
    """Put a mutant in and run tests until one fails, in a fork; return its name, "" or `UNKNOWN`."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    if not put():
        return UNKNOWN
    for item, following in zip(items, [*items[1:], None], strict=True):
        if not _passes(item, following):
            session._setupstate.teardown_exact(None)
            return item.nodeid
    return ""


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _patched(place: Path, old: str, new: str) -> bool:
    """Give the functions of a module the code of its mutant."""
    before = list(_codes(compile(old, str(place), "exec")))
    after = list(_codes(compile(new, str(place), "exec")))
    if [one.co_qualname for one in before] != [one.co_qualname for one in after]:
        return False
    pairs = dict(zip(before, after, strict=True))
    try:
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename.endswith(str(place)):
                one.__code__ = pairs.get(one.__code__, one.__code__)
    except ValueError:  # it has other free variables
        return False
    return True


def _rebound(place: Path, statement: ast.stmt) -> None:
    """Give a module, and all who import from it, what a mutant assigns; one not there yet reads its file."""
    ours = [one for name, one in sys.modules.items() if name.split(".")[0] == "lbgen"]
    module = next((one for one in ours if str(getattr(one, "__file__", "")).endswith(f"/{place}")), None)
    if module is None:  # the tests will import it from its file
        return
    fresh = dict(vars(module))
    exec(compile(ast.Module([statement], []), str(place), "exec"), fresh)
    for name, now in fresh.items():
        was = vars(module).get(name)
        if isinstance(was, dict) and was is not now and name != "__builtins__":
            was.clear()
            was.update(now)
            continue
        for one in ours:
            if was is not now and vars(one).get(name) is was:
                setattr(one, name, now)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


CALLED: set[CodeType] = set()
PREPARED: dict[str, set[CodeType]] = {}
"""What the fixtures of each test called, those of its file among them."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Note what was called before the test itself."""
    PREPARED.setdefault(_shared_by(item), set()).update(CALLED)


def _trace(items: list[pytest.Item]) -> dict[str, Trace]:
    """Run tests and note which functions of `lbgen` each of them calls, itself or in its file's fixtures."""
    here, done = f"{Path.cwd()}/", {}

    def note(frame: Any, _event: str, _argument: object) -> None:
        CALLED.add(frame.f_code)

    threading.settrace(note)
    sys.settrace(note)
    for item, following in zip(items, [*items[1:], None], strict=True):
        CALLED.clear()
        begin = time.monotonic()
        reports = runtestprotocol(item, log=False, nextitem=following)
        passed = all(report.passed for report in reports)
        done[item] = (time.monotonic() - begin, passed, set(CALLED))
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    return {
        item.nodeid: Trace(seconds, passed, sorted({
            (one.co_filename.removeprefix(here), one.co_firstlineno)
            for one in codes | PREPARED.get(_shared_by(item), set())
            if one.co_filename.startswith(f"{here}lbgen/")
        }))
        for item, (seconds, passed, codes) in done.items()
    }  # fmt: skip


def _shared_by(item: pytest.Item) -> str:
    """Name the tests that have the same fixtures of a file; a test that has none is alone."""
    assert isinstance(item, pytest.Function)
    info = item._fixtureinfo.name2fixturedefs
    wide = {name for name, its in info.items() if its[-1].scope in {"module", "class", "package"}}
    given = item.callspec.params if hasattr(item, "callspec") else {}
    values = [(name, given.get(name)) for name in sorted(wide)]
    return f"{item.path}{values}" if wide else item.nodeid


def _in_fork(work: Callable[[], str], limit_s: float) -> str:
    """Return what work says in a process of its own; "killed" if it ends otherwise or never."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os.close(reading)
        try:
            said = work()
        except BaseException as wrong:  # noqa: BLE001 - a fork returns to nobody
            said = f"{UNKNOWN} {wrong!r}"
        with os.fdopen(writing, "w") as file:
            file.write(said)
        os._exit(0)
    os.close(writing)
    timer = threading.Timer(limit_s, lambda: os.killpg(child, signal.SIGKILL))
    timer.start()
    with os.fdopen(reading) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    return said if status == 0 else "it ends by a signal"
