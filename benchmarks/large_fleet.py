"""How reading, checking and rendering grow with the fleet, measured against PyYAML's own C loader.

``python benchmarks/large_fleet.py``: explicit ``{address, weight, max_in_flight}`` servers in one pool.
Each measurement is a process of its own that loads the file once with `CSafeLoader` as it comes and
once with lbgen. Exits 1 above a limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click

RENDER_LIMIT, CHECK_LIMIT, GROWTH_LIMIT = 4.0, 3.0, 12.0
ROOT = Path(__file__).parent.parent

MEASURE = """
import json, sys, time
import yaml
from lbgen.fleet.load import load
from lbgen.fleet.source import Source
from lbgen.render import render

text = open(sys.argv[1], encoding="utf-8").read()
begin = time.perf_counter()
if sys.argv[2] == "yaml":
    yaml.load(text, yaml.CSafeLoader)
    print(json.dumps({"yaml": time.perf_counter() - begin}))
else:
    loaded = load([Source("fleet.yaml", text)])
    read = time.perf_counter() - begin
    assert loaded.fleet, loaded.problems[:3]
    for target in ("nginx", "haproxy"):
        render(loaded.fleet, target)
    print(json.dumps({"read": read, "all": time.perf_counter() - begin}))
"""


def fleet_text(servers: int) -> str:
    """Return a fleet of so many explicit servers."""
    lines = [
        f"      - {{address: 'gpu-{number}.example.org:8000', weight: {number % 8 + 1}, max_in_flight: 32}}"
        for number in range(servers)
    ]
    return "pools:\n  chat:\n    servers:\n" + "\n".join(lines) + "\n"


def measured(path: Path, what: str) -> dict[str, float]:
    """Return the seconds of each stage, in a fresh process."""
    command = [sys.executable, "-c", MEASURE, str(path), what]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def medians(folder: Path, servers: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of PyYAML, of reading and checking, and of everything."""
    path = folder / f"{servers}.yaml"
    path.write_text(fleet_text(servers), encoding="utf-8")
    runs = [{**measured(path, "yaml"), **measured(path, "lbgen")} for _ in range(rounds)]
    return {name: median(run[name] for run in runs) for name in runs[0]}


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--large/--no-large", default=True, help="Measure 100,000 servers, too.")
def main(rounds: int, large: bool) -> None:
    """Print the seconds and ratios for 10,000 and 100,000 servers."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        small = medians(Path(folder), 10_000, rounds)
        big = medians(Path(folder), 100_000, 1) if large else None
    ratios = [
        ("read and check / CSafeLoader", small["read"] / small["yaml"], CHECK_LIMIT),
        ("everything / CSafeLoader", small["all"] / small["yaml"], RENDER_LIMIT),
    ]
    if big:
        ratios.append(("100,000 / 10,000", big["all"] / small["all"], GROWTH_LIMIT))
    for name, values in (("10,000", small), ("100,000", big)):
        for stage, value in (values or {}).items():
            click.echo(f"{name} servers: {stage} {value:.3f} s")
    for name, ratio, limit in ratios:
        click.echo(f"{name}: {ratio:.2f} (at most {limit})")
    click.echo(f"measured in {time.perf_counter() - begin:.0f} s", err=True)
    sys.exit(any(ratio > limit for _, ratio, limit in ratios))


if __name__ == "__main__":
    main()
