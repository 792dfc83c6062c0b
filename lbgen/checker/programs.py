"""Which program checks which target: what the user said, else what is to be found here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.problems import LbgenError
from lbgen.runtimes.container import find_in_image
from lbgen.runtimes.process import find_local, program_at
from lbgen.runtimes.spec import NoProgramError
from lbgen.targets.registry import TARGETS
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lbgen.runtimes.spec import Program
    from lbgen.targets.program import Program as TargetProgram

MODES = ("auto", "none", "required")


class Choice(NamedTuple):
    """How to check: what ``--binary``, ``--resolve`` and ``--templates`` say."""

    mode: str = "auto"
    """``auto``: what is there; ``none``: do not check; ``required``: it is a failure not to check."""
    named: Mapping[str, str] = {}
    """By target: a path, or ``docker://IMAGE``."""
    resolve: bool = False
    """True: real host names are looked up."""
    templates: Path | None = None
    """A folder of the user's templates."""


class Found(NamedTuple):
    """A program and its version."""

    program: Program
    version: Version


def parse_choice(texts: Sequence[str], targets: Sequence[str]) -> Choice:
    """Return the choice for ``auto``, ``none``, ``required``, ``nginx=PATH`` and ``nginx=docker://IMAGE``.

    Raises `ValueError` with a sentence for the user.
    """
    mode, named = "auto", {}
    for text in texts:
        target, equals, place = text.partition("=")
        if not equals and text in MODES:
            mode = text
        elif equals and target in targets and place.removeprefix("docker://"):
            named[target] = place
        else:
            raise ValueError(
                f"'{text}' is none of {', '.join(MODES)}, {targets[0]}=PATH, {targets[0]}=docker://IMAGE"
            )
    return Choice(mode, named)


def find(target: str, wanted: Version, choice: Choice, say: Callable[[str], None]) -> Found:
    """Return the program that is to check a target's files, rendered for the version `wanted`.

    Raises `NoProgramError` with the reason when there is none, and `LbgenError` for a named one.
    """
    program = TARGETS[target].program
    if target in choice.named:
        return _named(choice.named[target], program)
    local = find_local(program.name)
    found = _asked(local, program) if local else None
    if found and found.version[:2] >= wanted[:2]:
        return found
    image = program.image(Version(wanted.major, wanted.minor))
    reason = f"the one here is {found.version}, older than the fleet's {wanted}" if found else "not found"
    try:
        return _asked(find_in_image(image, program.name), program)
    except NoProgramError as error:
        say(f"{program.name}: {reason}; {error}")
        raise NoProgramError(reason) from None


def differs(found: Version, wanted: Version) -> str:
    """Return the end of a sentence on a program of another version than the fleet's; empty for the same one.

    A distribution's last number says little: the first two decide what a configuration may say.
    """
    return "" if found[:2] == wanted[:2] else f", but the fleet is for {wanted}"


def version_here(target: str, choice: Choice) -> Version | None:
    """Return the version of the named program, else of the one that is installed; None: there is none.

    Raises `LbgenError` for a named one that is not available.
    """
    program = TARGETS[target].program
    if target in choice.named:
        return _named(choice.named[target], program).version
    local = None if choice.mode == "none" else find_local(program.name)
    try:
        return version_of(local, program) if local else None
    except LbgenError:
        return None


def version_of(found: Program, program: TargetProgram) -> Version | None:
    """Ask a program that was found for its version; None when it says none. Raises `LbgenError`."""
    return program.version(lambda arguments: found.run(arguments).output)


def _named(place: str, program: TargetProgram) -> Found:
    try:
        if place.startswith("docker://"):
            found: Program = find_in_image(place.removeprefix("docker://"), program.name)
        else:
            found = program_at(place)
        return _asked(found, program)
    except NoProgramError as error:
        raise LbgenError(f"--binary: {error}") from None


def _asked(found: Program, program: TargetProgram) -> Found:
    version = version_of(found, program)
    if version is None:
        raise NoProgramError(f"{found.place}: is not {program.name}: it says no version")
    return Found(found, version)
