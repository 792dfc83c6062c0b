"""Do the unit tests notice a fault? ``python -m tests.mutate --sample 300 [--package targets/haproxy]``.

Each mutant is run against the tests of its part that call its function (`tests/mutating.py`), in a copy of
the tree, first without the golden files, which the code itself wrote. The same seed takes the same mutants.
What lives is listed: a test is missing, or the mutant is equivalent, as `tests/equivalent.txt` says with why.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.mutants import Mutant, mutant, places

ROOT = Path(__file__).parents[1]
TARGETS = ("haproxy", "nginx", "envoy")
KEPT = ROOT / "tests" / "equivalent.txt"
PARTS: dict[str, tuple[str, ...]] = {
    **{f"targets/{name}/tells.py": ("manifests",) for name in TARGETS},
    **{f"targets/{name}/reading": ("deploy/test_plan.py",) for name in TARGETS},
    **{
        f"targets/{name}": (
            f"targets/{name}",
            "targets/test_behaviour.py",
            "targets/test_service.py",
            "test_render.py",
        )
        for name in TARGETS
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
GOLDEN = "test_golden.py"
LIMIT_S = 900
COPIED = ("lbgen", "templates", "tests", "integration", "examples", "docs", "pyproject.toml", "README.md")


class Verdict(NamedTuple):
    """How a mutant fared: killed, golden (by the golden files alone), lives or equivalent."""

    mutant: Mutant
    part: str
    end: str
    test: str
    """Which noticed it, where known."""


class Chosen(NamedTuple):
    """A mutant and the number of its node."""

    node: int
    mutant: Mutant


def part_of(path: str) -> str | None:
    """Return the part that a file of `lbgen` belongs to."""
    inner = path.removeprefix("lbgen/")
    return next((part for part in PARTS if inner == part or inner.startswith(f"{part}/")), None)


def sample(package: str, count: int, seed: int) -> list[Chosen]:
    """Return some mutants of a package; the same for the same seed and text."""
    found = [
        place
        for file in sorted(ROOT.glob("lbgen/**/*.py"))
        if (path := file.relative_to(ROOT).as_posix()).startswith(f"lbgen/{package}") and part_of(path)
        for place in places(path, file.read_text())
    ]
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    return [Chosen(place.node, mutant(place, (ROOT / place.path).read_text())) for place in chosen]


def pytest_in(tree: Path, part: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a part's tests in a tree; raises `TimeoutExpired`."""
    tests = [f"tests/{name}" for name in PARTS.get(part, (part,))]
    others = [
        name for name in TARGETS if part.startswith("targets/") and not part.startswith(f"targets/{name}")
    ]
    fixed = ["-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore", *_without(others)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *fixed, *words, *tests], cwd=tree, check=False, text=True,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **environ},
        capture_output=True, timeout=None if environ else LIMIT_S,
    )  # fmt: skip


def _without(targets: list[str]) -> list[str]:
    return ["-k", " and ".join(f"not {name}" for name in targets)] if targets else []


def notices(tree: Path, part: str, one: Mutant) -> bool:
    """Tell whether the tests of a part fail in a tree with a mutant."""
    place = tree / one.path
    whole = place.read_text()
    place.write_text(one.text)
    try:
        return pytest_in(tree, part, "-x").returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        place.write_text(whole)


def in_forks(part: str, chosen: list[Chosen], tree: Path, traces: Path) -> list[tuple[bool | None, str]]:
    """Return of each mutant whether a test of its function notices, and which; None: it runs at import."""
    orders, found = tree / "mutants.json", tree / "verdicts.jsonl"
    mutants = [{"path": one.mutant.path, "node": one.node, "text": one.mutant.text} for one in chosen]
    orders.write_text(json.dumps({"traces": f"{traces}/{part.replace('/', '-')}.json", "mutants": mutants}))
    found.write_text("")
    done = pytest_in(tree, part, "-p", "tests.mutating", LBGEN_MUTANTS=str(orders), LBGEN_VERDICTS=str(found))
    said = [json.loads(line)[1:] for line in found.read_text().splitlines()]
    assert len(said) == len(chosen), done.stdout + done.stderr
    return [(bit, name) for bit, name in said]


def run(chosen: list[Chosen], traces: Path) -> list[Verdict]:
    """Try mutants part by part."""
    equivalent = known_equivalents()
    found = []
    with tempfile.TemporaryDirectory(prefix="lbgen-mutants-") as folder:
        tree = _copy(Path(folder) / "tree")
        for part in PARTS:
            ours = [one for one in chosen if part_of(one.mutant.path) == part]
            found += [
                Verdict(one.mutant, part, "equivalent", "") for one in ours if _key(one.mutant) in equivalent
            ]
            left = [one for one in ours if _key(one.mutant) not in equivalent]
            for one, (noticed, name) in zip(
                left, in_forks(part, left, tree, traces) if left else [], strict=True
            ):
                found.append(verdict(one.mutant, part, tree, (noticed, name)))
                print(f"{found[-1].end:10} {one.mutant}  {name}", flush=True)
    return found


def verdict(one: Mutant, part: str, tree: Path, said: tuple[bool | None, str]) -> Verdict:
    """Judge a mutant; one that runs at import needs processes of its own."""
    noticed, name = said
    if noticed is None:
        noticed = notices(tree, part, one)
    if noticed:
        return Verdict(one, part, "killed", name)
    return Verdict(one, part, "golden" if notices(tree, GOLDEN, one) else "lives", "")


def _key(one: Mutant) -> str:
    """Name a mutant without its line, which moves."""
    return f"{one.path}: {one.before}  =>  {one.after}"


def known_equivalents() -> frozenset[str]:
    """Return the mutants that change nothing, of lines ``mutant  # why``."""
    if not KEPT.exists():
        return frozenset()
    lines = (line.partition("  # ")[0].rstrip() for line in KEPT.read_text().splitlines())
    return frozenset(line for line in lines if line)


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
    line.add_argument(
        "--traces", type=Path, help="a folder that keeps what each test calls; new tests are added"
    )
    line.add_argument("--list", action="store_true", help="only name them")
    options = line.parse_args()
    chosen = sample(options.package, options.sample, options.seed)
    if options.list:
        print(*(one.mutant for one in chosen), sep="\n")
        return
    with tempfile.TemporaryDirectory(prefix="lbgen-traces-") as folder:
        print(report(run(chosen, options.traces or Path(folder))))


if __name__ == "__main__":
    main()
