"""A target that balances its pools and does nothing else: what CONTRIBUTING's recipe comes to.

`tests/test_recipes.py` puts it into a copy of the tree, as `lbgen/targets/toy/__init__.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lbgen.fields import Field, Integer, Struct
from lbgen.strategies.registry import STRATEGIES
from lbgen.targets.behaviour import Behaviour
from lbgen.targets.common.answers import live_body
from lbgen.targets.inventory import Inventory, PoolEntry, ServerEntry, statements
from lbgen.targets.program import Checks, Message, Program
from lbgen.targets.settings import WITHOUT, SettingsTable, directory, raw, version
from lbgen.targets.spec import Abilities, Output, Room, Syntax
from lbgen.vocabulary import Refused, Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.problems import Problem
    from lbgen.targets.program import Ask
    from lbgen.targets.spec import Door, Part, Secrets, Target

_OLDEST = Version(1, 0)
_DIRECTORY = "/etc/toy"
_WAYS = ("round_robin", "least_conn")


class Own(NamedTuple):
    """What only this target has."""

    slots: int = 100


def _served(pool: Pool, settings: TargetSettings) -> Refused | None:
    del settings
    if pool.strategy.name in _WAYS:
        return None
    return Refused(f"{pool.strategy.name} is more than it can", "least_conn")


class ToyProgram(Program):
    """``toy``."""

    name = "toy"
    user = 7
    stop_signal = "TERM"

    def image(self, version: Version) -> str:
        """Return an image that nobody has."""
        return f"toy.invalid/toy:{version}"

    def version(self, ask: Ask) -> Version | None:
        """Return what ``toy --version`` prints."""
        found = re.search(r"toy (\d+\.\d+)", ask(["--version"]))
        return Version.parse(found[1]) if found else None

    def in_foreground(self, main_file: Path) -> Sequence[str]:
        """Return the arguments that serve."""
        return ["--serve", str(main_file)]

    def in_container(self, directory: str) -> list[str]:
        """Return the command of a container."""
        return ["toy", "--serve", f"{directory}/toy.conf"]

    def checking(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return the arguments that check."""
        del version
        return ["--check", str(main_file)]


class ToyChecks(Checks):
    """``toy --check``, which opens nothing."""

    def messages(self, output: str) -> Iterator[Message]:
        """Yield lines such as ``/etc/toy/toy.conf:3: what is this?``."""
        for found in re.finditer(r"^(\S+):(\d+): (.*)$", output, re.MULTILINE):
            yield Message(is_error=True, text=found[3], file=found[1], line=int(found[2]))


SETTINGS = SettingsTable(
    Struct(
        "settings of Toy",
        version(_OLDEST, "1.0"),
        directory(_DIRECTORY),
        Field("slots", Integer(1, 1_000), 100, "Requests at a time.", example=10),
        WITHOUT,
        raw("all"),
    ),
    Own,
)


class Toy:
    """The target ``toy``."""

    name = "toy"
    title = "Toy"
    main_file = "toy.conf"
    oldest = _OLDEST
    directory = _DIRECTORY
    settings = SETTINGS
    features: Mapping[str, object] = {}
    strategies = dict.fromkeys(STRATEGIES, _served)
    support = ()
    abilities = Abilities()
    behaviour = Behaviour()
    program: Program = ToyProgram()
    checks: Checks = ToyChecks()

    def quote(self, text: str) -> Syntax:
        """Return a text between quotes; raises `ValueError`."""
        if '"' in text:
            raise ValueError("a quote cannot be quoted")
        return Syntax(f'"{text}"')

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield nothing: a toy promises nothing."""
        del fleet
        return iter(())

    def notes(self, fleet: Fleet) -> Iterator[str]:
        """Yield nothing."""
        del fleet
        return iter(())

    def room(self, settings: TargetSettings) -> Room:
        """Return its slots."""
        return Room("slots", settings.own.slots)

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:
        """Return nothing."""
        del settings
        return ()

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the one file."""
        del part, secrets
        live = Syntax(live_body(fleet.digest))
        context = {"pools": fleet.pools, "live": live, "slots": fleet.target(self.name).own.slots}
        return (Output(self.main_file, "toy/toy.conf.j2", context),)

    def read(self, text: str) -> Inventory:
        """Return the pools of the file."""
        pools: dict[str, PoolEntry] = {}
        for line in statements(text):
            words = line.split()
            if words[0] == "pool":
                servers: dict[str, ServerEntry] = {}
                pools[words[1]] = PoolEntry(words[2], servers, ())
            elif words[0] == "server":
                servers[words[1]] = ServerEntry(words[2], int(words[3]), None, "up", False, ())
        return Inventory(pools, {})


TOY: Target = Toy()
