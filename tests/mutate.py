"""Do the unit tests notice a fault? ``python -m tests.mutate --sample 300 [--package targets/haproxy]``.

Each mutant is run against the tests of its part, in a copy of the tree, first without the golden files, which
the code itself wrote. The same seed takes the same mutants. What lives is listed: a test is missing, or the
mutant is equivalent, and then `tests/equivalent.txt` says why.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutants import Mutant, mutant, places

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "equivalent.txt"
PARTS: dict[str, tuple[str, ...]] = {
    **{f"targets/{name}/tells.py": ("manifests",) for name in ("haproxy", "nginx", "envoy")},
    **{f"targets/{name}/read.py": ("deploy/test_plan.py",) for name in ("haproxy", "nginx", "envoy")},
    **{
        f"targets/{name}": (
            f"targets/{name}",
            "targets/test_behaviour.py",
            "targets/test_service.py",
            "test_render.py",
        )
        for name in ("haproxy", "nginx", "envoy")
    },
    "targets": ("targets", "rules", "test_render.py"),
    "fleet": ("fleet", "rules", "reports", "test_render.py"),
    "deploy": ("deploy", "cli/test_drain.py", "cli/test_apply_json.py"),
    "agent": ("agent",),
    "simulate": ("simulate",),
    "strategies": ("simulate/test_choosers.py", "simulate/test_clock.py", "targets", "fleet/test_build.py"),
    "fields": ("fleet", "rules"),
    "files.py": ("test_files.py", "cli/test_render.py", "deploy"),
    "units.py": ("test_units.py", "fleet"),
}
"""The most special folder or file of `lbgen` decides; what is not here has no tests of its own."""
GOLDEN = "tests/test_golden.py"
LIMIT_S = 900
COPIED = ("lbgen", "templates", "tests", "integration", "examples", "docs", "pyproject.toml", "README.md")


class Verdict(NamedTuple):
    """How a mutant fared: killed, golden (by the golden files alone), lives or equivalent."""

    mutant: Mutant
    part: str
    end: str


def part_of(path: str) -> str | None:
    """Return the part that a file of `lbgen` belongs to."""
    inner = path.removeprefix("lbgen/")
    return next((part for part in PARTS if inner == part or inner.startswith(f"{part}/")), None)


def sample(package: str, count: int, seed: int) -> list[Mutant]:
    """Return some mutants of a package; the same for the same seed and text."""
    found = [
        place
        for file in sorted(ROOT.glob("lbgen/**/*.py"))
        if (path := file.relative_to(ROOT).as_posix()).startswith(f"lbgen/{package}") and part_of(path)
        for place in places(path, file.read_text())
    ]
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    return [mutant(place, (ROOT / place.path).read_text()) for place in chosen]


def notices(tree: Path, tests: tuple[str, ...]) -> bool:
    """Tell whether a tree's tests fail."""
    paths = [name if name.startswith("tests/") else f"tests/{name}" for name in tests]
    words = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore"]
    environ = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, *paths],
            cwd=tree, env=environ, capture_output=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def verdict(one: Mutant, tree: Path, equivalent: frozenset[str]) -> Verdict:
    """Put a mutant into a tree, run its tests, and take it out again."""
    part = part_of(one.path)
    assert part is not None
    if _key(one) in equivalent:
        return Verdict(one, part, "equivalent")
    place = tree / one.path
    whole = place.read_text()
    place.write_text(one.text)
    try:
        if notices(tree, PARTS[part]):
            return Verdict(one, part, "killed")
        return Verdict(one, part, "golden" if notices(tree, (GOLDEN,)) else "lives")
    finally:
        place.write_text(whole)


def _key(one: Mutant) -> str:
    """Name a mutant without its line, which moves."""
    return f"{one.path}: {one.before}  =>  {one.after}"


def known_equivalents() -> frozenset[str]:
    """Return the mutants that change nothing, of lines ``mutant  # why``."""
    if not KEPT.exists():
        return frozenset()
    lines = (line.partition("  # ")[0].rstrip() for line in KEPT.read_text().splitlines())
    return frozenset(line for line in lines if line)


def run(chosen: list[Mutant], jobs: int) -> list[Verdict]:
    """Try mutants, a tree for each of some that are tried at once."""
    equivalent = known_equivalents()
    with tempfile.TemporaryDirectory(prefix="lbgen-mutants-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            trees.put(_copy(Path(folder) / str(number)))

        def tried(one: Mutant) -> Verdict:
            tree = trees.get()
            try:
                found = verdict(one, tree, equivalent)
            finally:
                trees.put(tree)
            print(f"{found.end:10} {one}", flush=True)
            return found

        with ThreadPoolExecutor(jobs) as threads:
            return list(threads.map(tried, chosen))


def _copy(tree: Path) -> Path:
    tree.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tree / name)
    return tree


def report(found: list[Verdict]) -> str:
    """Return a table by part, and what lives."""
    lines = [
        "part | killed | by golden files alone | live | equivalent | killed of the others",
        "---|" * 5 + "---",
    ]
    for part in PARTS:
        ends = Counter(one.end for one in found if one.part == part)
        alive = ends.total() - ends["equivalent"]
        if ends:
            killed = f"{100 * ends['killed'] / alive:.0f} %" if alive else "-"
            row = (part, ends["killed"], ends["golden"], ends["lives"], ends["equivalent"], killed)
            lines.append(" | ".join(map(str, row)))
    for end in ("golden", "lives"):
        lines += ["", f"{end}:", *sorted(f"  {one.mutant}" for one in found if one.end == end)]
    return "\n".join(lines)


def main() -> None:
    """Sample, try, report."""
    line = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    line.add_argument("--sample", type=int, default=300)
    line.add_argument("--package", default="", help="a folder or a file of lbgen: targets/haproxy")
    line.add_argument("--seed", type=int, default=1)
    line.add_argument("--jobs", type=int, default=1)
    line.add_argument("--list", action="store_true", help="only name them")
    options = line.parse_args()
    chosen = sample(options.package, options.sample, options.seed)
    if options.list:
        print(*chosen, sep="\n")
    else:
        print(report(run(chosen, options.jobs)))


if __name__ == "__main__":
    main()
