"""NGINX open source, from 1.22 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.features import FEATURES
from lbgen.targets.nginx.settings import DIRECTORY, OLDEST, SETTINGS, room
from lbgen.targets.packaged import Packaged
from lbgen.targets.spec import Abilities

if TYPE_CHECKING:
    from lbgen.model import TargetSettings
    from lbgen.targets.spec import Room, Syntax, Target


class Nginx(Packaged):
    """The target ``nginx``."""

    name = "nginx"
    title = "NGINX"
    main_file = "nginx.conf"
    oldest = OLDEST
    directory = DIRECTORY
    features = FEATURES
    settings = SETTINGS
    abilities = Abilities(ejects=True, metrics_status=True, proxy_from_all=True)

    def quote(self, text: str) -> Syntax:
        """Return one literal word of NGINX's language; raises `ValueError`."""
        from lbgen.targets.nginx.language.quoting import quote  # noqa: PLC0415 - where it is rendered for

        return quote(text)

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have."""
        return room(settings)


NGINX: Target = Nginx()
