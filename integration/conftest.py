"""What the integration tests share: one rig with mock GPU servers for the whole run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from integration.debian import ImageError
from integration.edge import Edge, started
from integration.fleets import NO_SECRETS, PROXIES, SERVERS, TRIED, Proxy, files
from integration.images import resolve
from integration.results import measured, pytest_configure  # noqa: F401 - a fixture and a hook
from integration.turns import (  # noqa: F401 - hooks
    pytest_runtest_protocol,
    pytest_sessionfinish,
    pytest_sessionstart,
)
from lbgen.lab.problems import RigError
from lbgen.lab.rig import Rig
from tests.no_skip import pytest_runtest_makereport  # noqa: F401 - a hook
from tests.turns import pytest_collection_modifyitems, pytest_xdist_auto_num_workers  # noqa: F401 - hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from lbgen.lab.boxes import Balancer, MockBox

    Start = Callable[[dict[str, Any], Proxy], AbstractContextManager[Balancer]]


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """A network of our own; the test is skipped, with what is missing, where there is no Docker."""
    try:
        made = Rig()
    except RigError as error:
        pytest.skip(f"{error}: install and start the Docker engine (as root: .ci/docker.sh)")
    with made:
        yield made


@pytest.fixture(scope="session")
def running_mocks(rig: Rig) -> list[MockBox]:
    """Four mock GPU servers."""
    try:
        return rig.mocks(SERVERS, resolve("bookworm", "python"))
    except ImageError as error:
        pytest.skip(str(error))


@pytest.fixture
def mocks(running_mocks: list[MockBox]) -> list[MockBox]:
    """Four mock GPU servers, running and as new: 32 slots, in real time, nothing remembered."""
    return renewed(running_mocks)


def renewed(mocks: list[MockBox], **settings: object) -> list[MockBox]:
    """Make mocks as new, with some settings."""
    for mock in mocks:
        mock.ensure_running()
        mock.configure(**({"slots": 32, "speed": 1.0, "chunk_s": 0.01} | settings))
        mock.reset()
    return mocks


@pytest.fixture(scope="session")
def start(rig: Rig) -> Start:
    """Start a balancer for a fleet, and remove it afterwards."""

    @contextmanager
    def started(fleet: dict[str, Any], proxy: Proxy) -> Iterator[Balancer]:
        balancer = rig.balancer(proxy.target, proxy.image, files(fleet, proxy))
        try:
            yield balancer
        finally:
            balancer.remove()

    return started


@pytest.fixture(params=PROXIES, ids=str)
def proxy(request: pytest.FixtureRequest) -> Proxy:
    """Each balancer of the oldest and the newest generation."""
    return request.param  # type: ignore[no-any-return]  # what `params` holds


@pytest.fixture(scope="module", params=PROXIES, ids=str)
def module_proxy(request: pytest.FixtureRequest) -> Proxy:
    """Each balancer of the oldest and the newest generation, for what a whole file measures once."""
    return request.param  # type: ignore[no-any-return]  # what `params` holds


@pytest.fixture(scope="module", params=TRIED)
def edge(request: pytest.FixtureRequest, rig: Rig, running_mocks: list[MockBox]) -> Iterator[Edge]:
    """Both balancers of a generation, with the module's FLEET, SECRETS and files BESIDE."""
    renewed(running_mocks)
    module, generation = request.module, request.param
    secrets = getattr(module, "SECRETS", NO_SECRETS)
    beside = module.beside() if hasattr(module, "beside") else NO_SECRETS
    try:
        with started(rig, module.FLEET, generation, secrets, beside) as both:
            yield both
    except ImageError as error:
        pytest.skip(str(error))
