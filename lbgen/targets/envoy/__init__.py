"""Envoy, from 1.36 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy.features import FEATURES
from lbgen.targets.envoy.settings import DIRECTORY, OLDEST, SETTINGS, own, room
from lbgen.targets.spec import Abilities, Door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, TargetSettings
    from lbgen.problems import Problem
    from lbgen.targets.behaviour import Behaviour
    from lbgen.targets.inventory import Inventory
    from lbgen.targets.program import Checks, Program
    from lbgen.targets.spec import Output, Part, Room, Row, Secrets, Syntax, Target
    from lbgen.vocabulary import Refused


class Envoy:
    """The target ``envoy``; most of it is imported when it is asked for, since others do without."""

    name = "envoy"
    title = "Envoy"
    main_file = "envoy.yaml"
    oldest = OLDEST
    directory = DIRECTORY
    features = FEATURES
    settings = SETTINGS
    abilities = Abilities(
        active_checks=True,
        ejects=True,
        backup_beside_affinity=True,
        usual=False,
        one_file=True,
        watches=True,
        proxy_from_all=True,
    )

    @property
    def strategies(self) -> Mapping[str, Callable[[Pool, TargetSettings], Refused | None]]:
        """For each strategy: None when it is rendered, else why not."""
        from lbgen.targets.envoy.pools.strategies import REFUSALS  # noqa: PLC0415

        return REFUSALS

    @property
    def support(self) -> tuple[Row, ...]:
        """Every key that is not simply rendered."""
        from lbgen.targets.envoy.limitations.support import SUPPORT  # noqa: PLC0415

        return SUPPORT

    def understands(self, key: str) -> bool:
        """Tell whether the table of limitations knows a key; any other is refused."""
        from lbgen.targets.envoy.limitations.support import understood  # noqa: PLC0415

        return understood(key)

    def quote(self, text: str) -> Syntax:
        """Return one scalar of YAML; raises `ValueError`."""
        from lbgen.targets.envoy.language.yaml_lines import quote  # noqa: PLC0415

        return quote(text)

    @property
    def behaviour(self) -> Behaviour:
        """How it chooses servers."""
        from lbgen.targets.envoy.behaviour import BEHAVIOUR  # noqa: PLC0415

        return BEHAVIOUR

    @property
    def program(self) -> Program:
        """Its own program."""
        from lbgen.targets.envoy.process.program import PROGRAM  # noqa: PLC0415

        return PROGRAM

    @property
    def checks(self) -> Checks:
        """How that program looks at files that it is only to check."""
        from lbgen.targets.envoy.process.check import CHECKS  # noqa: PLC0415

        return CHECKS

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what Envoy cannot do for this fleet."""
        from lbgen.targets.envoy.limitations.limits import limits  # noqa: PLC0415

        return limits(fleet)

    def notes(self, fleet: Fleet) -> Iterator[str]:  # noqa: ARG002 - one signature for all
        """Yield nothing: what a request is held by goes with it."""
        return iter(())

    def read(self, text: str) -> Inventory:
        """Return what a main file says."""
        from lbgen.targets.envoy.reading.read import read  # noqa: PLC0415

        return read(text)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:
        """Return the address of its admin pages."""
        return (Door("admin", own(settings).admin),)

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render."""
        from lbgen.targets.envoy.outputs import outputs  # noqa: PLC0415

        return outputs(fleet, part, secrets)


ENVOY: Target = Envoy()
