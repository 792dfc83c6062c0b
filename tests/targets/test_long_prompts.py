"""Long prompts whose key chooses the server: each has its home, and looking for it takes little."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.targets.site import TARGETS, Site, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from integration.envoy_site import MockServer

TEXT = 'The "quick" brown fox explains\n step by step, how a load balancer works. '
JSON = (("Content-Type", "application/json"),)
MOST_MS = 30
"""Of CPU for a look at a MiB: three times what it takes on a busy machine."""


def fleet(ports: Mapping[str, int], servers: Mapping[str, MockServer]) -> dict[str, Any]:
    places = [f"127.0.0.1:{server.port}" for server in servers.values()]
    pool = {"engine": "vllm", "health": False, "servers": places}
    return {
        "pools": {"plain": pool, "keyed": {**pool, "strategy": "prefix"}},
        "listeners": {
            name: {"bind": f"127.0.0.1:{ports[name]}", "auth": "none", "inspect": {"body": "2MiB"},
                   "routes": [{"pool": name}]}
            for name in ("plain", "keyed")
        },
    }  # fmt: skip


@pytest.fixture(scope="module", params=TARGETS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("long") / request.param
    for parent in (folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    names = (("plain", "keyed"), ("a", "b", "c"))
    try:
        with running(request.param, fleet, names, {}, folder) as made:
            yield made
    except LookupError as missing:
        pytest.skip(str(missing))


def body(size: int, first: str = "") -> bytes:
    system = first + TEXT * (size // len(TEXT))
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "hello"}]
    return json.dumps({"messages": messages, "model": "m"}).encode()


def test_a_long_prompt_has_its_home(site: Site) -> None:
    homes: list[str] = []
    for number in range(12):
        said = body(200_000, f"You are agent {number}. ")
        servers = {site.ask("keyed", "/v1/x", "POST", said, JSON).headers["x-mock"] for _ in range(2)}
        assert len(servers) == 1
        homes += servers
    assert len(set(homes)) > 1


@pytest.mark.alone
def test_looking_at_a_long_prompt_takes_little(site: Site) -> None:
    said = body(1_000_000)
    taken: dict[str, list[float]] = {"plain": [], "keyed": []}
    for _ in range(7):
        for port, times in taken.items():
            before = cpu_ms(site)
            assert site.ask(port, "/v1/x", "POST", said, JSON).status == 200
            times.append(cpu_ms(site) - before)
    assert median(taken["keyed"]) - median(taken["plain"]) < MOST_MS, taken


def cpu_ms(site: Site) -> float:
    """Return the milliseconds of CPU that the program and its workers have used."""
    own = Path(f"/proc/{site.process}/task")
    children = (own / str(site.process) / "children").read_text().split()
    tasks = (task for pid in (site.process, *children) for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6
