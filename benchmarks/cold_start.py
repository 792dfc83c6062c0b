"""How long a cold ``lbgen render`` takes, measured against the imports that it cannot do without.

``python benchmarks/cold_start.py``: pairs of runs, one of each right after the other, so that a busy
machine slows both; the median of the ratios counts. Exits 1 above the limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click

LIMIT = 1.4
SMALLEST = "pools:\n  chat:\n    servers: [gpu-0:8000, gpu-1:8000, gpu-2:8000]\n"
BARE = [sys.executable, "-c", "import click, yaml, jinja2.sandbox"]
ROOT = Path(__file__).parent.parent


def seconds(command: list[str], caches: str) -> float:
    """Return how long a command takes; raises `CalledProcessError` when it fails.

    Bytecode and templates are compiled into `caches`, as an installation has them beside its files.
    """
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": caches, "XDG_CACHE_HOME": caches}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin


@click.command()
@click.option("--pairs", default=25, show_default=True)
@click.option("--target", default="nginx", show_default=True)
def main(pairs: int, target: str) -> None:
    """Print the median ratio of a cold render to the bare imports."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "fleet.yaml"
        fleet.write_text(SMALLEST, encoding="utf-8")
        render = [sys.executable, "-m", "lbgen", "render", "-t", target, str(fleet)]
        for command in (render, BARE):  # fills the caches of bytecode and templates
            seconds(command, folder)
        runs = [(seconds(render, folder), seconds(BARE, folder)) for _ in range(pairs)]
    ratio = median(ours / bare for ours, bare in runs)
    ours, bare = (median(column) * 1000 for column in zip(*runs, strict=True))
    click.echo(f"render {ours:.1f} ms, imports {bare:.1f} ms, ratio {ratio:.2f} (at most {LIMIT})")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
