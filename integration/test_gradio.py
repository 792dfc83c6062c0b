"""Gradio and its Python client through every balancer: a page's state stays with the server that began it."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.environments import environment
from integration.fronts import FRONTS, front
from integration.waiting import eventually
from lbgen.lab.boxes import fetch
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.fleets import Proxy
    from lbgen.lab.rig import Rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
CLIENTS, CALLS = 9, 8
QUIET = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"}


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter that has Gradio."""
    return environment("gradio", "6.31.0") / "python"


@pytest.fixture(scope="module")
def applications(python: Path, rig: Rig) -> Iterator[list[str]]:
    """The addresses of three applications."""
    with ExitStack() as stack:
        places = []
        for number in range(3):
            port = free_port()
            words = [str(python), str(HERE / "gradio_app.py"), f"s{number}", rig.gateway, str(port)]
            process = stack.enter_context(subprocess.Popen(words, env=QUIET, stdout=subprocess.DEVNULL))
            stack.callback(process.kill)
            places.append(f"{rig.gateway}:{port}")
        for place in places:
            eventually(lambda place=place: answers(place), 300, f"{place} serves")  # type: ignore[misc]
        yield places


def answers(place: str) -> bool:
    try:
        return fetch(f"http://{place}/config").status == 200
    except OSError:
        return False


@pytest.mark.parametrize("one", FRONTS, ids=str)
def test_a_session_keeps_its_state(
    one: Proxy | str, applications: list[str], python: Path, rig: Rig, tmp_path: Path
) -> None:
    strategy = {"name": "session", "insert": "lb_session"}
    pool = {"engine": "http", "strategy": strategy, "servers": applications, "health": False}
    with front(rig, one, {"pools": {"ui": pool}, "listeners": {"public": {}}}, tmp_path) as running:
        words = [str(python), str(HERE / "gradio_asks.py"), running.url, str(CLIENTS), str(CALLS)]
        done = subprocess.run(words, env=QUIET, capture_output=True, text=True, check=True)
    sessions = json.loads(done.stdout)
    for said in sessions:
        name = said[0].split()[0]
        assert said == [f"{name} {number + 1}" for number in range(CALLS)]
    assert len({said[0].split()[0] for said in sessions}) >= 2
