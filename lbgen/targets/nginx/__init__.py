"""NGINX open source, from 1.22 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.features import FEATURES
from lbgen.targets.nginx.settings import DIRECTORY, OLDEST, SETTINGS, room
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


class Nginx:
    """The target ``nginx``."""

    name = "nginx"
    title = "NGINX"
    main_file = "nginx.conf"
    oldest = OLDEST
    directory = DIRECTORY
    features = FEATURES
    settings = SETTINGS
    abilities = Abilities(ejects=True, metrics_status=True, proxy_from_all=True)

    def understands(self, key: str) -> bool:  # noqa: ARG002 - one signature for all
        """Return True: what is not refused is rendered."""
        return True

    def quote(self, text: str) -> Syntax:
        """Return one literal word of NGINX's language; raises `ValueError`."""
        from lbgen.targets.nginx.language.quoting import quote  # noqa: PLC0415 - where it is rendered for

        return quote(text)

    @property
    def strategies(self) -> Mapping[str, Callable[[Pool, TargetSettings], Refused | None]]:
        """For each strategy: None when it is rendered, else why not."""
        from lbgen.targets.nginx.pools.strategies import REFUSALS  # noqa: PLC0415 - where it is rendered for

        return REFUSALS

    @property
    def support(self) -> tuple[Row, ...]:
        """Every key that is not simply rendered by every version."""
        from lbgen.targets.nginx.limitations.support import SUPPORT  # noqa: PLC0415 - where it is rendered for

        return SUPPORT

    @property
    def behaviour(self) -> Behaviour:
        """How it chooses servers."""
        from lbgen.targets.nginx.behaviour import BEHAVIOUR  # noqa: PLC0415 - rendering does without

        return BEHAVIOUR

    @property
    def program(self) -> Program:
        """Its own program."""
        from lbgen.targets.nginx.process.program import PROGRAM  # noqa: PLC0415 - rendering does without

        return PROGRAM

    @property
    def checks(self) -> Checks:
        """How that program looks at files that it is only to check."""
        from lbgen.targets.nginx.process.check import CHECKS  # noqa: PLC0415 - rendering does without

        return CHECKS

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what NGINX of this version cannot do for this fleet."""
        from lbgen.targets.nginx.limitations.limits import limits  # noqa: PLC0415 - where it is rendered for

        return limits(fleet)

    def notes(self, fleet: Fleet) -> Iterator[str]:  # noqa: ARG002 - one signature for all
        """Yield nothing: a request's buffers are released with it, and grow with its body alone."""
        return iter(())

    def read(self, text: str) -> Inventory:
        """Return what a main file says."""
        from lbgen.targets.nginx.reading.read import read  # noqa: PLC0415 - rendering does without

        return read(text)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:  # noqa: ARG002 - one signature for all
        """Return nothing: it binds what the fleet says."""
        return ()

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render."""
        from lbgen.targets.nginx.outputs import outputs  # noqa: PLC0415 - where it is rendered for

        return outputs(fleet, part, secrets)


NGINX: Target = Nginx()
