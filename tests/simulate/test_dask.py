"""Sweeps on a Dask cluster: a scheduler and a worker on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.cli.guard import run

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SMALLEST = str(ROOT / "examples" / "smallest.yaml")
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    workers = int(sys.argv[1])
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two workers, as --executor takes it."""
    yield from _cluster(tmp_path_factory.mktemp("dask"), 2)


@pytest.fixture
def empty_cluster(tmp_path: Path) -> Iterator[str]:
    yield from _cluster(tmp_path, 0)


def _cluster(folder: Path, workers: int) -> Iterator[str]:
    pytest.importorskip("distributed", reason="Dask is missing: pip install 'lbgen[dask]'")
    program = folder / "cluster.py"
    program.write_text(CLUSTER)
    with subprocess.Popen(
        [sys.executable, str(program), str(workers)],
        cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process.stdout.readline().strip().replace("tcp://", "dask://")
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def test_the_results_are_those_of_a_local_run(
    cluster: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    load = tmp_path / "load.yaml"
    load.write_text("classes: [{output: {exponential: 100}, prompt: 50}]\n")
    words = ["simulate", SMALLEST, "--load", "0.5", "--load", "0.9", "--requests", "500", "--format", "json"]
    for workload in ("bimodal", "chat", str(load)):
        assert run([*words, "--workload", workload]) == 0
        here = capsys.readouterr().out
        assert run([*words, "--workload", workload, "--executor", cluster]) == 0
        assert capsys.readouterr().out == here


def test_a_cluster_without_workers(empty_cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", SMALLEST, "--executor", empty_cluster]) == 2
    assert "has no workers" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["dask://", "ray://a:1", "dask://host", "dask://host:x"])
def test_what_is_no_address(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", SMALLEST, "--executor", address]) == 2
    assert "write dask://HOST:PORT" in capsys.readouterr().err
