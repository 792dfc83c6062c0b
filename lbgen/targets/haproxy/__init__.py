"""HAProxy, from 2.6 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.features import FEATURES
from lbgen.targets.haproxy.limits import limits
from lbgen.targets.haproxy.notes import notes
from lbgen.targets.haproxy.outputs import outputs
from lbgen.targets.haproxy.quoting import quote
from lbgen.targets.haproxy.settings import DIRECTORY, OLDEST, SETTINGS, room
from lbgen.targets.haproxy.strategies import REFUSALS
from lbgen.targets.haproxy.support import SUPPORT
from lbgen.targets.spec import Abilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, TargetSettings
    from lbgen.problems import Problem
    from lbgen.targets.behaviour import Behaviour
    from lbgen.targets.inventory import Inventory
    from lbgen.targets.program import Checks, Program
    from lbgen.targets.spec import Output, Part, Room, Secrets, Syntax, Target


class Haproxy:
    """The target ``haproxy``."""

    name = "haproxy"
    title = "HAProxy"
    main_file = "haproxy.cfg"
    oldest = OLDEST
    directory = DIRECTORY
    features = FEATURES
    settings = SETTINGS
    strategies = REFUSALS
    support = SUPPORT
    abilities = Abilities(
        queues=True,
        active_checks=True,
        agent_checks=True,
        peers=True,
        runtime_socket=True,
        backup_beside_affinity=True,
    )

    def quote(self, text: str) -> Syntax:
        """Return one literal word of HAProxy's language; raises `ValueError`."""
        return quote(text)

    @property
    def behaviour(self) -> Behaviour:
        """How it chooses servers."""
        from lbgen.targets.haproxy.behaviour import BEHAVIOUR  # noqa: PLC0415 - rendering does without

        return BEHAVIOUR

    @property
    def program(self) -> Program:
        """Its own program."""
        from lbgen.targets.haproxy.program import PROGRAM  # noqa: PLC0415 - rendering does without

        return PROGRAM

    @property
    def checks(self) -> Checks:
        """How that program looks at files that it is only to check."""
        from lbgen.targets.haproxy.check import CHECKS  # noqa: PLC0415 - rendering does without

        return CHECKS

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what HAProxy of this version cannot do for this fleet."""
        return limits(fleet)

    def notes(self, fleet: Fleet) -> Iterator[str]:
        """Yield what the configuration costs."""
        return notes(fleet)

    def read(self, text: str) -> Inventory:
        """Return what a main file says."""
        from lbgen.targets.haproxy.read import read  # noqa: PLC0415 - rendering does without

        return read(text)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render."""
        return outputs(fleet, part, secrets)


HAPROXY: Target = Haproxy()
