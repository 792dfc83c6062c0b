"""Sweeps on a Dask cluster: the same runs and results as here, on more machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen import __version__
from lbgen.problems import LbgenError
from lbgen.simulate.load.workload import Fixed
from lbgen.simulate.runs.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lbgen.simulate.load.workload import Workload
    from lbgen.simulate.runs.result import Figures
    from lbgen.simulate.runs.run import Task

SCHEME = "dask://"
CONNECT_S = 10
NOTHING = Fixed({})
"""In the place of a workload that travels apart."""


def dask_sweep(address: str) -> Callable[[Sequence[Task]], Iterator[Figures]]:
    """Return what does tasks on the cluster whose scheduler is at ``dask://HOST:PORT``.

    Raises `LbgenError` when Dask is not installed or the address is none; the sweep does for other failures.
    """
    host, _, port = address.removeprefix(SCHEME).rpartition(":")
    if not address.startswith(SCHEME) or not host or not port.isdigit():
        raise LbgenError(f"--executor {address}: write dask://HOST:PORT, the scheduler's address")
    try:
        import distributed  # noqa: PLC0415 - an extra, and half a second
    except ImportError:
        raise LbgenError(f"--executor {address}: Dask is missing: pip install 'lbgen[dask]'") from None

    make: Any = distributed.Client  # the library has no types

    def sweep(tasks: Sequence[Task]) -> Iterator[Figures]:
        try:
            client: Any = make(f"tcp://{host}:{port}", timeout=CONNECT_S)
        except (OSError, TimeoutError):
            raise LbgenError(f"{address}: no Dask scheduler answers there") from None
        with client:
            _check(client, address)
            yield from _results(client, tasks)

    return sweep


def worker_version() -> str:
    """Return the version of lbgen on a worker."""
    return __version__


def run_there(task: Task, workload: Workload) -> Figures:
    """Do a run whose workload came by another way, since a trace is large and the same for many tasks."""
    return run(task._replace(workload=workload))


def _check(client: Any, address: str) -> None:  # noqa: ANN401 - the library has no types
    """Refuse a cluster without workers, or whose results could be others."""
    try:
        versions = client.run(worker_version)
    except Exception as error:  # noqa: BLE001 - whatever a worker raises comes over, such as ImportError
        raise LbgenError(f"{address}: its workers cannot run lbgen {__version__}: {error}") from None
    if not versions:
        raise LbgenError(f"{address}: has no workers")
    for worker, version in sorted(versions.items()):
        if version != __version__:
            raise LbgenError(f"{address}: the worker {worker} has lbgen {version}, here it is {__version__}")


def _results(client: Any, tasks: Sequence[Task]) -> Iterator[Figures]:  # noqa: ANN401 - likewise
    shared = {id(task.workload): task.workload for task in tasks}
    there = {key: client.scatter(workload, hash=False) for key, workload in shared.items()}
    futures = [
        client.submit(run_there, task._replace(workload=NOTHING), there[id(task.workload)], pure=False)
        for task in tasks
    ]
    try:
        yield from _gathered(futures)
    finally:
        client.cancel(futures)


def _gathered(futures: Iterable[Any]) -> Iterator[Figures]:
    for future in futures:
        yield future.result()
