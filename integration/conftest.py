"""What the integration tests share: one rig with mock GPU servers for the whole run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from integration import envoys
from integration.debian import ImageError
from integration.edge import Edge, started
from integration.fleets import (
    ALL,
    ENVOY_PROXIES,
    ENVOYS,
    NEWEST,
    NO_SECRETS,
    PROXIES,
    SERVERS,
    TARGETS,
    TRIED,
    Proxy,
    files,
)
from integration.images import resolve
from integration.results import measured, pytest_configure  # noqa: F401 - a fixture and a hook
from integration.turns import (  # noqa: F401 - hooks
    pytest_runtest_protocol,
    pytest_sessionfinish,
    pytest_sessionstart,
)
from lbgen.lab.problems import RigError
from lbgen.lab.rig import Rig, connect
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


@pytest.fixture(scope="module", params=ENVOYS.values() if ALL else [ENVOYS[NEWEST]])
def envoy_version(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have `envoy_site` start this version; for modules that say so by ``usefixtures``."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setenv("ENVOY", str(envoys.path(request.param)))
        except ImageError as error:
            pytest.skip(str(error))
        yield


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
def images() -> list[str]:
    """Options of `lbgen trial` that name the local images, where Docker is there."""
    try:
        connect()
        named = {"nginx": resolve("bookworm", "nginx"), "haproxy": resolve("bookworm", "haproxy"),
                 "mock": resolve("bookworm", "python")}  # fmt: skip
    except (RigError, ImageError) as error:
        pytest.skip(str(error))
    return [f"--image={program}={image}" for program, image in named.items()]


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


def targets_of(module: Any) -> tuple[str, ...]:
    """Return the targets that a module is about: those that its ``TRIES`` names, or NGINX and HAProxy."""
    return tuple(getattr(module, "TRIES", TARGETS))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `proxy`, and `module_proxy` for what a whole file measures once: oldest and newest generation."""
    tried = (*PROXIES, *(ENVOY_PROXIES if "envoy" in targets_of(metafunc.module) else ()))
    marks = metafunc.definition.iter_markers("parametrize")
    given = (mark.args[0] for mark in marks)
    named = (names.split(",") if isinstance(names, str) else names for names in given)
    marked = {name.strip() for names in named for name in names}
    for name, scope in (("proxy", "function"), ("module_proxy", "module")):
        if name in metafunc.fixturenames and name not in marked:
            metafunc.parametrize(name, tried, ids=str, scope=scope)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=TRIED)
def edge(request: pytest.FixtureRequest, rig: Rig, running_mocks: list[MockBox]) -> Iterator[Edge]:
    """The balancers of a generation, with the module's FLEET, SECRETS and files BESIDE.

    Those of the module's TRIES.
    """
    renewed(running_mocks)
    module, generation = request.module, request.param
    secrets = getattr(module, "SECRETS", NO_SECRETS)
    beside = module.beside() if hasattr(module, "beside") else NO_SECRETS
    try:
        with started(rig, module.FLEET, generation, secrets, beside, targets_of(module)) as both:
            yield both
    except ImageError as error:
        pytest.skip(str(error))
