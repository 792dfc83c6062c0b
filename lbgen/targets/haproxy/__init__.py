"""HAProxy, from 2.6 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.features import FEATURES
from lbgen.targets.haproxy.settings import DIRECTORY, OLDEST, SETTINGS, room
from lbgen.targets.spec import Abilities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.problems import Problem
    from lbgen.targets.behaviour import Behaviour
    from lbgen.targets.inventory import Inventory
    from lbgen.targets.program import Checks, Program
    from lbgen.targets.spec import Door, Output, Part, Room, Row, Secrets, Syntax, Target
    from lbgen.vocabulary import Refused


class Haproxy:
    """The target ``haproxy``."""

    name = "haproxy"
    title = "HAProxy"
    main_file = "haproxy.cfg"
    oldest = OLDEST
    directory = DIRECTORY
    features = FEATURES
    settings = SETTINGS
    abilities = Abilities(
        queues=True,
        active_checks=True,
        agent_checks=True,
        peers=True,
        runtime_socket=True,
        backup_beside_affinity=True,
    )

    def understands(self, key: str) -> bool:  # noqa: ARG002 - one signature for all
        """Return True: what is not refused is rendered."""
        return True

    def quote(self, text: str) -> Syntax:
        """Return one literal word of HAProxy's language; raises `ValueError`."""
        from lbgen.targets.haproxy.language.quoting import quote  # noqa: PLC0415 - where it is rendered for

        return quote(text)

    @property
    def strategies(self) -> Mapping[str, Callable[[Pool, TargetSettings], Refused | None]]:
        """For each strategy: None when it is rendered, else why not."""
        from lbgen.targets.haproxy.pools.strategies import REFUSALS  # noqa: PLC0415 - where it is rendered for

        return REFUSALS

    @property
    def support(self) -> tuple[Row, ...]:
        """Every key that is not simply rendered by every version."""
        from lbgen.targets.haproxy.limitations.support import SUPPORT  # noqa: PLC0415 - where it is rendered for

        return SUPPORT

    @property
    def behaviour(self) -> Behaviour:
        """How it chooses servers."""
        from lbgen.targets.haproxy.behaviour import BEHAVIOUR  # noqa: PLC0415 - rendering does without

        return BEHAVIOUR

    @property
    def program(self) -> Program:
        """Its own program."""
        from lbgen.targets.haproxy.process.program import PROGRAM  # noqa: PLC0415 - rendering does without

        return PROGRAM

    @property
    def checks(self) -> Checks:
        """How that program looks at files that it is only to check."""
        from lbgen.targets.haproxy.process.check import CHECKS  # noqa: PLC0415 - rendering does without

        return CHECKS

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what HAProxy of this version cannot do for this fleet."""
        from lbgen.targets.haproxy.limitations.limits import limits  # noqa: PLC0415 - where it is rendered for

        return limits(fleet)

    def notes(self, fleet: Fleet) -> Iterator[str]:
        """Yield what the configuration costs."""
        from lbgen.targets.haproxy.limitations.notes import notes  # noqa: PLC0415 - where it is rendered for

        return notes(fleet)

    def read(self, text: str) -> Inventory:
        """Return what a main file says."""
        from lbgen.targets.haproxy.reading.read import read  # noqa: PLC0415 - rendering does without

        return read(text)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:  # noqa: ARG002 - one signature for all
        """Return nothing: it binds what the fleet says."""
        return ()

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render."""
        from lbgen.targets.haproxy.outputs import outputs  # noqa: PLC0415 - where it is rendered for

        return outputs(fleet, part, secrets)


HAPROXY: Target = Haproxy()
