"""``lbgen check`` with the real programs, on a machine where the fleet does not live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.debian import ImageError
from integration.fleets import TRIED
from integration.images import GENERATIONS, resolve
from lbgen.cli.guard import run

if TYPE_CHECKING:
    from pathlib import Path

# Host names, certificates, a user, an address and a key that no container has.
FLEET = """
pools:
  chat:
    servers: ["gpu-[0-3].invalid:8000", "[fd00::2]:8000"]
    tls: {ca: /etc/lb/ca.pem, server_name: gpu.internal, certificate: c.pem, key: k.pem}
targets:
  nginx: {version: "%(nginx)s", user: nosuchuser}
  haproxy: {version: "%(haproxy)s", user: nosuchuser}
listeners:
  public:
    bind: "203.0.113.9:443"
    tls: {certificate: fullchain.pem, key: privkey.pem}
    redirect_from: "203.0.113.9:80"
    auth: {clients: all}
clients:
  team: {key: "env:A_KEY_THAT_NOBODY_HAS"}
"""
KINDS = {
    "nginx": ("host names", "certificate files", "secrets", "user", "listen addresses"),
    "haproxy": ("host names", "certificate files", "secrets", "user"),
}


def program(suite: str, target: str) -> str:
    try:
        return f"{target}=docker://{resolve(suite, target)}"  # type: ignore[arg-type]
    except ImageError as error:
        pytest.skip(str(error))


@pytest.fixture(params=TRIED)
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fleet(suite: str, tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    generation = GENERATIONS[suite]
    text = FLEET % {"nginx": generation.nginx, "haproxy": generation.haproxy}
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("target", ["nginx", "haproxy"])
def test_what_is_not_there_is_stood_in_for(
    suite: str, target: str, fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["check", str(fleet), "-t", target, "--binary", program(suite, target)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert captured.out.startswith(f"{target} {getattr(GENERATIONS[suite], target)}.")
    assert captured.out.endswith(": ok\n")
    for kind in KINDS[target]:
        assert f"stand-ins for {kind}" in captured.err


@pytest.mark.parametrize(("target", "level"), [("nginx", "server"), ("haproxy", "frontend")])
def test_a_real_complaint_points_into_the_rendered_file(
    suite: str, target: str, level: str, fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = f'targets.{target}.raw={{"{level}": ["lbgen_has_no_such_word on;"]}}'
    code = run(["check", str(fleet), "-t", target, "--set", raw, "--binary", program(suite, target)])
    captured = capsys.readouterr()
    assert code == 1
    assert f"error[{target}-says]" in captured.err
    assert captured.err.count("lbgen_has_no_such_word on;") >= 1  # the line, shown under its place


@pytest.mark.parametrize("target", ["nginx"])
def test_real_names_are_asked_for_only_with_resolve(
    suite: str, target: str, fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["check", str(fleet), "-t", target, "--resolve", "--binary", program(suite, target)])
    assert code == 1
    assert "host not found" in capsys.readouterr().err
