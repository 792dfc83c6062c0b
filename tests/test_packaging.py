"""The package as people get it: a wheel built from the sdist, in a fresh environment, and a bare checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
FLEET = "pools:\n  chat:\n    servers: [gpu-0:8000]\n"


def run(*command: object, cwd: Path) -> str:
    """Run a command apart from this checkout and return its output."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LBGEN"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist's files, which are those of a bare checkout."""
    (path,) = built.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel; its dependencies are lent by ours, so no index is asked."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def fleet(folder: Path) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    return path


def test_the_wheel_holds_the_templates_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "lbgen/templates/nginx/nginx.conf.j2" in names
    assert "lbgen/templates/haproxy/haproxy.cfg.j2" in names
    assert "lbgen/py.typed" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"lbgen"}


def test_an_installed_wheel_renders(environment, tmp_path):
    python = environment / "bin" / "python"
    place = run(python, "-c", "import lbgen; print(lbgen.__file__)", cwd=tmp_path)
    assert place.startswith(str(environment))
    run(environment / "bin" / "lbgen", "render", fleet(tmp_path), "-o", "out", cwd=tmp_path)
    assert (tmp_path / "out" / "nginx" / "nginx.conf").is_file()
    assert (tmp_path / "out" / "haproxy" / "haproxy.cfg").is_file()


def test_the_console_script_and_the_module_are_the_same(environment, tmp_path):
    script = run(environment / "bin" / "lbgen", "--version", cwd=tmp_path)
    assert script == run(environment / "bin" / "python", "-m", "lbgen", "--version", cwd=tmp_path)


def test_a_bare_checkout_renders(unpacked, tmp_path):
    fleet(tmp_path)
    out = run(sys.executable, "-m", "lbgen", "render", tmp_path / "fleet.yaml", "-t", "nginx", cwd=unpacked)
    assert "gpu-0:8000" in out


def test_the_sdist_holds_what_its_tests_need(unpacked):
    for name in ("tests", "integration", "templates", "examples", "README.md", "LICENSE", "CHANGELOG.md"):
        assert (unpacked / name).exists(), name
