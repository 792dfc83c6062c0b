"""``lbgen trial`` with containers: one short trial for each target."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from integration.debian import ImageError
from integration.fleets import TARGETS, chat
from integration.images import resolve
from lbgen.lab.problems import RigError
from lbgen.lab.rig import connect

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 60


@pytest.fixture(scope="module")
def images() -> list[str]:
    """Options that name the local images, where Docker is there."""
    try:
        connect()
        named = {"nginx": resolve("bookworm", "nginx"), "haproxy": resolve("bookworm", "haproxy"),
                 "mock": resolve("bookworm", "python")}  # fmt: skip
    except (RigError, ImageError) as error:
        pytest.skip(str(error))
    return [f"--image={program}={image}" for program, image in named.items()]


@pytest.mark.parametrize("target", TARGETS)
def test_a_short_trial(target: str, images: list[str], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(chat(servers="gpu-[0-2]:8000")))
    done = subprocess.run(
        [sys.executable, "-m", "lbgen", "trial", str(fleet), "-t", target, "--runtime=docker", *images,
         f"--requests={REQUESTS}", "--strategy=least_conn", "--workload=fixed:output=100", "--format=json",
         "--expect=errors<1", "--expect=load_stdev<0.001"],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "load_stdev<0.001: does not hold for least_conn" in done.stderr
    assert "errors<1" not in done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["target"], result["ok"]) == (target, REQUESTS)
    assert sum(server["requests"] for server in result["servers"]) == REQUESTS
    predicted = result["predicted"]
    assert result["e2e_s"]["p50"] == pytest.approx(predicted["e2e_s"]["p50"], rel=0.25)
