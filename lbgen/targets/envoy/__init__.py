"""Envoy, from 1.36 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy.features import FEATURES
from lbgen.targets.envoy.settings import DIRECTORY, OLDEST, SETTINGS, own, room
from lbgen.targets.packaged import Packaged
from lbgen.targets.spec import Abilities, Door

if TYPE_CHECKING:
    from lbgen.model import TargetSettings
    from lbgen.targets.spec import Room, Syntax, Target


class Envoy(Packaged):
    """The target ``envoy``."""

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

    def understands(self, key: str) -> bool:
        """Tell whether the table of limitations knows a key; any other is refused."""
        from lbgen.targets.envoy.limitations.support import understood  # noqa: PLC0415 - rendering does without

        return understood(key)

    def quote(self, text: str) -> Syntax:
        """Return one scalar of YAML; raises `ValueError`."""
        from lbgen.targets.envoy.language.yaml_lines import quote  # noqa: PLC0415 - where it is rendered for

        return quote(text)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:
        """Return the address of its admin pages."""
        return (Door("admin", own(settings).admin),)


ENVOY: Target = Envoy()
