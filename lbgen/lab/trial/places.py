"""Which runtime a trial uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.lab.problems import RigError
from lbgen.lab.trial.containers import Containers
from lbgen.lab.trial.processes import Processes
from lbgen.problems import LbgenError
from lbgen.runtimes.process import find_local

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = ("nginx", "haproxy", "mock")


def place(wanted: str, targets: Sequence[str], images: Sequence[str]) -> Containers | Processes:
    """Return the runtime to use; raises `LbgenError`, with what to install, when there is none.

    Left to us, programs of this machine come first: nothing has to be fetched for them.
    """
    named = images_of(images)
    lacking = [target for target in targets if find_local(target) is None]
    if wanted == "process" or (wanted == "auto" and not lacking and not named):
        if lacking:
            raise LbgenError(
                f"{' and '.join(lacking)} cannot be found here: install it, or use --runtime docker"
            )
        return Processes()
    try:
        return Containers(named)
    except RigError as error:
        raise LbgenError(f"{error}; {_instead(lacking)}") from None


def _instead(lacking: Sequence[str]) -> str:
    """Return what helps somebody who has no Docker."""
    if not lacking:
        return "install it, or use --runtime process"
    return f"install it, or {' and '.join(lacking)} for --runtime process"


def images_of(texts: Sequence[str]) -> dict[str, str]:
    """Return images by program; raises `LbgenError`."""
    found = {}
    for text in texts:
        program, equals, image = text.partition("=")
        if not equals or not image or program not in PROGRAMS:
            raise LbgenError(f"--image {text}: write PROGRAM=IMAGE, for one of {', '.join(PROGRAMS)}")
        found[program] = image
    return found
