"""Install Debian systems into folders, by debootstrap from the mirror that this machine uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DEFAULT_MIRROR = "http://deb.debian.org/debian"


class ImageError(RuntimeError):
    """An image cannot be had; the message says what to do."""


def require_root(otherwise: str) -> None:
    """Raise ImageError unless this process may make a system; ``otherwise`` names the other way."""
    if os.geteuid() != 0:
        raise ImageError(f"debootstrap needs root to make a system: run as root, or {otherwise}")


def require_debootstrap() -> None:
    """Install debootstrap when it is missing, or raise ImageError where apt-get cannot."""
    if shutil.which("debootstrap"):
        return
    packages = ["debootstrap", "debian-archive-keyring"]
    if not shutil.which("apt-get"):
        raise ImageError(f"there is no debootstrap: install {' and '.join(packages)}")
    run(["apt-get", "update", "-qq"])
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages])


def install(suite: str, packages: Sequence[str], root: Path) -> None:
    """Install a minimal system with ``packages`` into ``root``, with signatures checked.

    A mount namespace of its own takes debootstrap's mounts of /proc and /sys away with it, however it ends:
    removing the folder can never reach into them. Raises ImageError with the end of debootstrap's log.
    """
    options = ["--variant=minbase", "--force-check-gpg", f"--include={','.join(packages)}"]
    log = root / "debootstrap" / "debootstrap.log"
    try:
        run(["unshare", "--mount", "debootstrap", *options, suite, str(root), mirror()])
    except ImageError as error:
        details = log.read_text(errors="replace")[-2000:] if log.is_file() else ""
        raise ImageError(f"{error}\n{details}".rstrip()) from error


def mirror() -> str:
    """Find the Debian mirror that this machine uses, or fall back to Debian's own.

    apt is asked, as it knows both of its file formats.
    """
    if not shutil.which("apt-get"):
        return DEFAULT_MIRROR
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    return mirror_in(subprocess.run(listing, capture_output=True, text=True, check=False).stdout)


def mirror_in(listing: str) -> str:
    """Pick the first Debian mirror of lines of ``URI component``.

    Only an archive that is called ``debian`` and has a ``main`` is one: the security archive, and those of
    other vendors, hold a part of the packages.
    """
    found = re.search(r"^(https?://\S+/debian)/? main$", listing, re.MULTILINE)
    return found[1] if found else DEFAULT_MIRROR


def run(command: Sequence[str]) -> None:
    """Run a command that says nothing unless it fails; then raise ImageError with its last lines."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ImageError(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")
