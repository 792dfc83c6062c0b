"""HAProxy, from 2.6 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.haproxy.features import FEATURES
from lbgen.targets.haproxy.settings import DIRECTORY, OLDEST, SETTINGS, room
from lbgen.targets.packaged import Packaged
from lbgen.targets.spec import Abilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, TargetSettings
    from lbgen.targets.spec import Room, Syntax, Target


class Haproxy(Packaged):
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

    def quote(self, text: str) -> Syntax:
        """Return one literal word of HAProxy's language; raises `ValueError`."""
        from lbgen.targets.haproxy.language.quoting import quote  # noqa: PLC0415 - where it is rendered for

        return quote(text)

    def notes(self, fleet: Fleet) -> Iterator[str]:
        """Yield what the configuration costs."""
        from lbgen.targets.haproxy.limitations.notes import notes  # noqa: PLC0415 - where it is rendered for

        return notes(fleet)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)


HAPROXY: Target = Haproxy()
