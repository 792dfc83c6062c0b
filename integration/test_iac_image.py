"""The image of lbgen, built from a local base and from wheels, without any network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
import zipfile
from contextlib import suppress
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docker.errors import ImageNotFound

from integration.debian import ImageError
from integration.images import GENERATIONS, resolve
from lbgen import __version__
from lbgen.lab.problems import RigError
from lbgen.lab.rig import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
CONTEXT = ("pyproject.toml", "README.md", "LICENSE", "lbgen", "templates")
FLEET = 'pools: {chat: {servers: [gpu-0:8000]}}\nlisteners: {public: {bind: "127.0.0.1:8080"}}\n'


def repacked(found: Distribution, folder: Path) -> Path:
    """Make a wheel of an installed distribution again, for an index that nobody has to ask."""
    tag = next(line for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
    name = found.metadata["Name"].replace("-", "_")
    path = folder / f"{name}-{found.version}-{tag.removeprefix('Tag: ')}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in found.files or ():
            if not str(file).startswith("..") and file.suffix != ".pyc" and Path(str(file.locate())).exists():
                archive.write(str(file.locate()), str(file))
    return path


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image, removed afterwards."""
    # The wheels are of the Python that runs the tests, and so has the base to be.
    version = "{}.{}".format(*sys.version_info)
    suite = next((name for name, one in GENERATIONS.items() if one.python == version), None)
    if suite is None:
        pytest.skip(f"no image has Python {version}")
    try:
        client, base = connect(), resolve(suite, "python")
    except (RigError, ImageError) as error:
        pytest.skip(str(error))
    context = tmp_path_factory.mktemp("context")
    for name in CONTEXT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, context / name)
    for needed in ("click", "PyYAML", "Jinja2", "MarkupSafe", "nginx-crossplane"):
        repacked(distribution(needed), context)
    pip = repacked(distribution("pip"), context).name
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(context),
        str(context),
    ]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = context.glob("lbgen-*.whl")
    tag = f"lbgen-image-test:{uuid.uuid4().hex[:8]}"
    arguments = {"BASE": base, "INSTALL": f"/source/{wheel.name}", "PIP": f"python3 /source/{pip}/pip",
                 "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/source"}  # fmt: skip
    tags = {"build": f"{tag}-build", "": tag}  # the first stage has a name, so that it can be removed, too
    try:
        for stage, name in tags.items():
            client.images.build(
                path=str(context), dockerfile=str(ROOT / "examples/container/Containerfile"), tag=name,
                target=stage, buildargs=arguments, network_mode="none", rm=True,
            )  # fmt: skip
        yield tag
    finally:
        for name in tags.values():
            with suppress(ImageNotFound):
                client.images.remove(name, force=True)


def lbgen(image: str, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run lbgen in its image, as its own user, or as us in a folder of ours."""
    command = ["docker", "run", "--rm", "--interactive", "--network=none", "--read-only"]
    if folder is not None:
        command += ["--volume", f"{folder}:/work", "--user", f"{os.getuid()}:{os.getgid()}"]
    return subprocess.run([*command, image, *words], input=FLEET, capture_output=True, text=True, check=False)


def test_it_is_lbgen_as_nobody(image: str) -> None:
    assert lbgen(image, "--version").stdout == f"lbgen {__version__}\n"
    settings = connect().images.get(image).attrs["Config"]
    assert settings["Entrypoint"] == ["lbgen"]
    assert settings["User"] == "65532:65532"


def test_it_renders_to_what_is_mounted(image: str, tmp_path: Path) -> None:
    printed = lbgen(image, "render", "-", "-t", "nginx", "--set", "name=fleet")
    assert printed.returncode == 0, printed.stderr
    assert "server gpu-0:8000" in printed.stdout
    (tmp_path / "fleet.yaml").write_text(f"name: fleet\n{FLEET}")
    done = lbgen(image, "render", "fleet.yaml", "-o", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "server gpu-0:8000" in (tmp_path / "out" / "nginx" / "nginx.conf").read_text()


def test_it_checks(image: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET.replace("servers", "sorvers"))
    done = lbgen(image, "check", "fleet.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert "fleet.yaml:1:" in done.stderr
