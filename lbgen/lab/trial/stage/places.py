"""Which runtime a trial uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.checker.programs import version_of
from lbgen.lab.problems import RigError
from lbgen.lab.trial.stage.processes import Processes
from lbgen.problems import LbgenError
from lbgen.runtimes.process import find_local
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.lab.trial.stage.containers import Containers
    from lbgen.vocabulary import Version

PROGRAMS = (*TARGETS, "mock")


def place(wanted: str, targets: Mapping[str, Version], images: Sequence[str]) -> Containers | Processes:
    """Return the runtime to use for targets of these versions.

    Raises `LbgenError`, with what to install, when there is none. Left to us, programs of this machine come
    first: nothing has to be fetched for them.
    """
    named = images_of(images)
    lacking = [reason for target, version in targets.items() if (reason := _lack(target, version))]
    if wanted == "process" or (wanted == "auto" and not lacking and not named):
        if lacking:
            raise LbgenError(f"{'; '.join(lacking)}; or use --runtime docker")
        return Processes()
    instead = "; ".join(lacking) or "which needs nothing else here"
    try:
        from lbgen.lab.trial.stage.containers import Containers  # noqa: PLC0415 - Docker's package is an extra

        return Containers(named)
    except ImportError as error:
        raise LbgenError(
            f"containers need the package {error.name}: pip install 'lbgen[lab]', "
            f"or for --runtime process: {instead}"
        ) from None
    except RigError as error:
        raise LbgenError(f"{error}: install Docker, or for --runtime process: {instead}") from None


def _lack(target: str, wanted: Version) -> str | None:
    """Return what keeps a target from being run on this machine, with what helps; None: nothing."""
    program = find_local(TARGETS[target].program.name)
    if program is None:
        return f"{target} is not to be found here: install it"
    found = version_of(program, TARGETS[target].program)
    if found is not None and found[:2] < wanted[:2]:
        older = f"{found.major}.{found.minor}"
        return (
            f"the {target} here is {found}, older than the fleet's {wanted}: install a newer one, or try the "
            f"files for it with --target-version {target}={older}"
        )
    return None


def images_of(texts: Sequence[str]) -> dict[str, str]:
    """Return images by program; raises `LbgenError`."""
    found = {}
    for text in texts:
        program, equals, image = text.partition("=")
        if not equals or not image or program not in PROGRAMS:
            raise LbgenError(f"--image {text}: write PROGRAM=IMAGE, for one of {', '.join(PROGRAMS)}")
        found[program] = image
    return found
