"""Envoy, from 1.36 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy.features import FEATURES
from lbgen.targets.envoy.limits import limits
from lbgen.targets.envoy.outputs import outputs
from lbgen.targets.envoy.settings import DIRECTORY, OLDEST, SETTINGS, room
from lbgen.targets.envoy.strategies import REFUSALS
from lbgen.targets.envoy.support import SUPPORT
from lbgen.targets.envoy.yaml_lines import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, TargetSettings
    from lbgen.problems import Problem
    from lbgen.targets.spec import Output, Part, Room, Secrets, Syntax, Target


class Envoy:
    """The target ``envoy``."""

    name = "envoy"
    title = "Envoy"
    main_file = "envoy.yaml"
    oldest = OLDEST
    directory = DIRECTORY
    features = FEATURES
    settings = SETTINGS
    strategies = REFUSALS
    support = SUPPORT

    def quote(self, text: str) -> Syntax:
        """Return one scalar of YAML; raises `ValueError`."""
        return quote(text)

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what Envoy of this version cannot do for this fleet."""
        return limits(fleet)

    def notes(self, fleet: Fleet) -> Iterator[str]:  # noqa: ARG002 - one signature for all
        """Yield nothing."""
        return iter(())

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render."""
        return outputs(fleet, part, secrets)


ENVOY: Target = Envoy()
