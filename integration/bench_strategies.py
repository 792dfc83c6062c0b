"""Every strategy on the two workloads that tell them apart: ``python -m integration.bench_strategies``.

Needs Docker and the images of `integration.images`. Prints two tables in Markdown; each figure is the median
over the seeds, with the least and the most.
"""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from integration.bench_loads import Bench, Running, Subject, favoured, options, tables
from integration.fleets import TARGETS, Proxy, chat, files
from integration.images import resolve, versions
from lbgen.lab.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lbgen.lab.boxes import MockBox

MOST_SERVERS = 8
LOOSE = {"name": "prefix", "load_factor": 2}
SHORTEST = {"max_in_flight": 32, "queue": {"order": "shortest_first"}}


def ours(
    rig: Rig, generation: str, title: str, target: str, *, modules: Sequence[str] = (), **pool: Any
) -> Subject:
    """Return a row for a pool of a fleet file, rendered for one target; `modules` are NGINX's."""
    proxy = Proxy(generation, target)

    @contextmanager
    def start(mocks: Sequence[MockBox]) -> Iterator[Running]:
        named = f"gpu-[0-{len(mocks) - 1}]:8000"
        fleet = chat(**({"strategy": "least_conn", "servers": named} | pool))
        if modules:
            fleet["targets"] = {"nginx": {"modules": list(modules)}}
        rendered = files(fleet, proxy)
        balancer = rig.balancer(target, proxy.image, rendered)
        favoured(balancer)
        try:
            yield Running(balancer.url, balancer.processes)
        finally:
            balancer.remove()

    return Subject(title, target, start)


def subjects(rig: Rig, generation: str) -> dict[str, Sequence[Subject]]:
    """Return the rows of each workload's table."""

    def on(target: str, title: str, **pool: Any) -> Subject:
        return ours(rig, generation, title, target, **pool)

    def everywhere(*names: str) -> Iterator[Subject]:
        for name in names:
            for target in TARGETS:
                yield on(target, name, strategy=name)

    return {
        "answers": (
            *everywhere("round_robin", "random_two", "least_conn"),
            on("haproxy", "least_conn, max_in_flight 32", max_in_flight=32),
            on("haproxy", "the same, shortest_first", **SHORTEST),
            on("haproxy", "pack, max_in_flight 32", strategy="pack", max_in_flight=32),
        ),
        "prefixes": (
            *everywhere("round_robin", "least_conn"),
            on("nginx", "session by tenant", strategy="session"),
            on("haproxy", "session by tenant", strategy="session"),
            on("nginx", "prefix", strategy="prefix"),
            on("nginx", "prefix, njs", strategy="prefix", modules=["njs"]),
            on("nginx", "prefix, max_in_flight 48", strategy="prefix", max_in_flight=48),
            on("haproxy", "prefix", strategy="prefix"),
            on("haproxy", "prefix, load_factor 2", strategy=LOOSE),
            on("haproxy", "prefix, max_in_flight 48", strategy="prefix", max_in_flight=48),
            on("haproxy", "prefix, hashed", strategy="prefix", servers=UNLIKE),
        ),
    }


UNLIKE = ["gpu-[0-2]:8000", {"address": "gpu-3:8000", "max_in_flight": 1_000}]
"""Servers whose prefixes are hashed, because their caps differ."""


def programs(generation: str) -> str:
    """Return the versions of a generation's balancers, in words."""
    found = versions(resolve(generation, "nginx")) | versions(resolve(generation, "haproxy"))
    return f"NGINX {found['nginx']}, HAProxy {found['haproxy']}"


def servers(rig: Rig) -> list[MockBox]:
    """Start the mock GPU servers."""
    mocks = rig.mocks([f"gpu-{number}" for number in range(MOST_SERVERS)], resolve("bookworm", "python"))
    for mock in mocks:
        favoured(mock)
    return mocks


def main() -> None:
    """Run the command line."""
    line = argparse.ArgumentParser(prog="integration.bench_strategies", description=__doc__)
    chosen = options(line).parse_args()
    print(f"{programs(chosen.generation)}; seeds 0 to {chosen.seeds - 1}, {chosen.requests} requests each.\n")
    with Rig() as rig:
        bench = Bench(servers(rig), chosen.requests, chosen.keep)
        for text in tables(bench, subjects(rig, chosen.generation), chosen.seeds, chosen.only):
            print(text, flush=True)


if __name__ == "__main__":
    main()
