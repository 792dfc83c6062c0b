"""Inference engines as they are released, behind rendered files: ``python -m integration.real_engines``.

Installs what is missing in a folder of its own, runs two servers of each engine with a tiny model of random
weights, and the balancers of this machine in front of them; prints a line for each check, and writes
docs/engines-tried.md. Not part of the tests: it downloads gigabytes and takes half an hour.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from integration.real_engines import of_engine, page, through, under_load
from integration.real_engines.engines import KINDS, pair
from integration.real_engines.fronts import ROOT, front
from integration.real_engines.outcomes import ENGINE, FAILED, PASSED, Outcome, outcome
from tests.targets.site import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from integration.real_engines.engines import Engine, Kind
    from integration.real_engines.fronts import Front

CACHE = Path("~/.cache/lbgen/engines").expanduser()
RESTART = "an engine killed and started again"
THROUGH = {
    "streams, byte for byte": through.streams,
    "`usage` of a stream": through.usage,
    "calls of tools": through.tools,
    "clients that leave": through.leaving,
    "clients that leave before the first token": through.leaving_early,
    "long prompts": through.long_prompts,
    "refusals of the engine": through.errors,
    "prefix cache, system prompts": under_load.tenants,
    "prefix cache, conversations": under_load.agents,
    "a drain": under_load.drain,
    "`lbgen agent`": under_load.agent,
}
"""What is checked through each balancer."""


def main() -> int:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.real_engines", description=__doc__)
    line.add_argument("engine", nargs="*", choices=[*KINDS, []], help="default: all")
    line.add_argument("--folder", type=Path, default=CACHE, help="where engines are installed (%(default)s)")
    line.add_argument("--page", type=Path, default=ROOT / "docs/engines-tried.md", help="what is written")
    line.add_argument("--target", nargs="+", choices=TARGETS, default=TARGETS)
    line.add_argument("--check", default="", metavar="WORD", help="only those with it in their name")
    chosen = line.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # engines end with us
    failed = False
    for name in chosen.engine or KINDS:
        kind = KINDS[name](chosen.folder.resolve())
        found, versions = tried(kind, chosen.target, chosen.check)
        what = page.Tried(kind.preset, kind.version, kind.origin, _today(), versions)
        page.write(chosen.page, what, found)
        failed = failed or any(one.verdict == FAILED for one in found)
    return int(failed)


def _today() -> str:
    return str(datetime.now(UTC).date())


def tried(kind: Kind, targets: Sequence[str], word: str = "") -> tuple[list[Outcome], dict[str, str]]:
    """Make all checks with an engine that have a word; return them, and the balancers' versions."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lbgen-", dir="/tmp")))
        folder.chmod(0o755)
        engines = stack.enter_context(pair(kind, folder))
        found = [outcome("ready only when it can answer", ENGINE, partial(of_engine.readiness, engines[0]))]
        for one in engines:
            one.wait()
        fronts = [stack.enter_context(front(target, engines, _folder(folder, target))) for target in targets]
        found += _checks(fronts, engines, word)
        return found, {one.target: one.version for one in fronts}


def _folder(folder: Path, target: str) -> Path:
    made = folder / f"{target}-site"
    made.mkdir()
    return made


def _checks(fronts: Sequence[Front], engines: Sequence[Engine], word: str) -> Iterator[Outcome]:
    for name, of_itself in {
        "names of its metrics": of_engine.metrics,
        "idle connections": of_engine.keep_alive,
    }.items():
        if word in name:
            yield outcome(name, ENGINE, partial(of_itself, engines[0]))
    for name, check in THROUGH.items():
        for one in fronts if word in name else ():
            yield outcome(name, one.target, partial(check, one, engines))
    if word in RESTART:
        yield from _restarted(fronts, engines)


def _restarted(fronts: Sequence[Front], engines: Sequence[Engine]) -> Iterator[Outcome]:
    try:
        said = under_load.restart(fronts, engines)
    except AssertionError as error:
        said = dict.fromkeys((one.target for one in fronts), f"!{error}")
    for target, words in said.items():
        verdict = FAILED if words.startswith("!") else PASSED
        found = Outcome(RESTART, target, verdict, words.removeprefix("!"))
        print(f"{found.check}, {target}: {found.verdict}, {found.detail}", flush=True)
        yield found


if __name__ == "__main__":
    raise SystemExit(main())
