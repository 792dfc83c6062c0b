"""No false alarm: on what lbgen renders itself, on what Debian ships, on what balances no models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbgen.audit import Report, audit
from lbgen.cli.guard import run
from lbgen.readers.files import read_configurations

ROOT = Path(__file__).parents[2]
FLEETS = [
    path
    for path in sorted([*ROOT.glob("tests/golden/*/fleet.yaml"), *ROOT.glob("examples/*.yaml")])
    if not path.parent.name.startswith("envoy-")  # whose files the audit does not read
]
SECRETS = (
    "TEAM_A_KEY",
    "BATCH",
    "BATCH_NEXT",
    "BATCH_KEY",
    "BATCH_KEY_NEXT",
    "METRICS_PASSWORD",
    "ENGINE_KEY",
)
ASKED_FOR = {
    "f02-vllm-haproxy": {"timeout-below-generation"},
    "f09-model-runner": {"timeout-below-generation"},
    "f12-model-in-body": {"check-says-yes"},
    "f25-gaudi": {"timeout-below-generation"},
    "f27-replicas": {"check-says-yes"},
}
"""What some fleets write, and 'check' warns of."""
SHIPPED = ["/etc/nginx/nginx.conf", "/etc/nginx/sites-available/default", "/etc/haproxy/haproxy.cfg"]
SAMPLES = sorted(Path("/usr/share/doc/haproxy/examples").glob("*.cfg"))


def report(*paths: object, every: bool = False) -> Report:
    return audit(read_configurations([str(path) for path in paths]), {}, every=every)


def said(found: Report) -> list[str]:
    return [f"{one.location}: {one.code}: {one.message}" for one in found.problems]


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_is_found_in_what_lbgen_renders(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"sk-{name.lower()}-0123456789")
    assert run(["-q", "render", str(fleet), "-o", str(tmp_path)]) == 0
    mains = [*tmp_path.glob("*/nginx.conf"), *tmp_path.glob("*/haproxy.cfg")]
    assert mains
    found = report(*mains, every=True)
    assert said(found) == []
    assert [note for note in found.notes if "lbgen.lua" not in note] == []


@pytest.mark.parametrize("fleet", sorted(ROOT.glob("tests/fleets/*.yaml")), ids=lambda path: path.stem)
def test_what_a_fleet_asks_for_is_all_that_is_found(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"env:([A-Z_]+)|\$\{([A-Z_]+)", fleet.read_text()):
        monkeypatch.setenv("".join(name), "sk-0123456789")
    for target in ("nginx", "haproxy"):
        run(["-q", "render", str(fleet), "-t", target, "-o", str(tmp_path)])  # not every fleet is for both
    mains = [*tmp_path.glob("*/nginx.conf"), *tmp_path.glob("*/haproxy.cfg")]
    if mains:
        assert {one.code for one in report(*mains, every=True).problems} == ASKED_FOR.get(fleet.stem, set())


@pytest.mark.parametrize("target", ["nginx", "haproxy"])
@pytest.mark.parametrize("part", ["http", "upstreams"])
def test_nothing_is_found_in_parts_of_it(
    target: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["render", str(ROOT / "examples/smallest.yaml"), "-t", target, "--part", part]) == 0
    (tmp_path / "part").write_text(capsys.readouterr().out)
    assert said(report(tmp_path / "part", every=True)) == []


@pytest.mark.parametrize("path", [*SHIPPED, *SAMPLES], ids=str)
def test_nothing_is_found_in_what_debian_ships(path: str | Path) -> None:
    if not Path(path).is_file():
        pytest.skip(f"{path}: not here")
    assert said(report(path)) == []


def test_a_web_site_is_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "nginx.conf").write_text(
        "worker_processes auto;\nevents { worker_connections 64; }\nhttp {\n  include mime.types;\n"
        "  server {\n    listen 80;\n    root /var/www;\n    location /nginx_status { stub_status; }\n"
        '    add_header X-Key "sk-0123456789abcdef";\n  }\n}\n'
    )
    (tmp_path / "mime.types").write_text("types { application/x-perl pl; }\n")
    assert report(tmp_path) == Report((), ())


def test_a_pool_of_something_else_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(
        "upstream vllm { server 10.0.0.1:8000; }\nupstream grafana { server 10.0.0.2:3000; }\n"
        "server { location / { proxy_pass http://grafana; } location /g/ { proxy_pass http://grafana; }\n"
        "location /v1/ { proxy_pass http://vllm; } }\n"
    )
    found = report(tmp_path / "a.conf")
    assert {one.location.line for one in found.problems if one.location} == {3, 4}  # its server, its location
    assert [note for note in found.notes if "not looked at" in note] == [
        "not looked at (--all does), since nothing says that models are served there: http://grafana"
    ]
    assert len(said(report(tmp_path / "a.conf", every=True))) >= len(found.problems)
