"""How reading, checking and rendering grow with the fleet, measured against PyYAML's own C loader.

``python benchmarks/large_fleet.py``: explicit ``{address, weight, max_in_flight}`` servers in one pool.
Whole commands are measured, in turns; `CSafeLoader` as it comes, with the garbage collector on. Exits 1
above a limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click

RENDER_LIMIT, CHECK_LIMIT, GROWTH_LIMIT = 4.0, 3.0, 12.0
ROOT = Path(__file__).parent.parent
LOAD = "import sys, yaml; yaml.load(open(sys.argv[1], encoding='utf-8'), yaml.CSafeLoader)"


class Seconds(NamedTuple):
    """How long each command takes for one size of fleet."""

    yaml: float
    check: float
    render: float


def fleet_text(servers: int) -> str:
    """Return a fleet of so many explicit servers."""
    lines = [
        f"      - {{address: 'gpu-{number}.example.org:8000', weight: {number % 8 + 1}, max_in_flight: 32}}"
        for number in range(servers)
    ]
    return "pools:\n  chat:\n    servers:\n" + "\n".join(lines) + "\n"


def seconds(*arguments: str, caches: Path) -> float:
    """Return how long Python takes with these arguments, bytecode and templates being compiled already."""
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(caches), "XDG_CACHE_HOME": str(caches)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def measured(folder: Path, servers: int, rounds: int) -> Seconds:
    """Return the medians for one size; the first round fills the caches and does not count."""
    path = str(folder / f"{servers}.yaml")
    Path(path).write_text(fleet_text(servers), encoding="utf-8")
    lbgen = ("-m", "lbgen", "-q")
    runs = [
        Seconds(
            seconds("-c", LOAD, path, caches=folder),
            seconds(*lbgen, "check", "--binary", "none", path, caches=folder),
            seconds(*lbgen, "render", path, "-o", str(folder / "out"), caches=folder),
        )
        for _ in range(rounds + 1)
    ]
    return Seconds(*(median(column) for column in zip(*runs[1:], strict=True)))


@click.command()
@click.option("--rounds", default=5, show_default=True)
def main(rounds: int) -> None:
    """Print the seconds and ratios for 10,000 and 100,000 servers."""
    with tempfile.TemporaryDirectory() as folder:
        small = measured(Path(folder), 10_000, rounds)
        large = measured(Path(folder), 100_000, max(1, rounds // 3))
    click.echo(f"10,000 servers: {small}\n100,000 servers: {large}")
    ratios = (
        ("check / CSafeLoader", small.check / small.yaml, CHECK_LIMIT),
        ("render / CSafeLoader", small.render / small.yaml, RENDER_LIMIT),
        ("render of 100,000 / of 10,000", large.render / small.render, GROWTH_LIMIT),
    )
    for name, ratio, limit in ratios:
        click.echo(f"{name}: {ratio:.2f} (at most {limit})")
    sys.exit(any(ratio > limit for _, ratio, limit in ratios))


if __name__ == "__main__":
    main()
