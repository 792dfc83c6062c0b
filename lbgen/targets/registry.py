"""Every target that lbgen can render for. A new one is one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy import ENVOY
from lbgen.targets.haproxy import HAPROXY
from lbgen.targets.nginx import NGINX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lbgen.targets.foreign import Foreign
    from lbgen.targets.spec import Target

TARGETS: Mapping[str, Target] = {target.name: target for target in (NGINX, HAPROXY, ENVOY)}
USUAL = tuple(name for name, target in TARGETS.items() if target.abilities.usual)
"""What is rendered for where neither the fleet nor the command names targets."""


def foreign(kind: str, name: str, text: str) -> Foreign:
    """Return a configuration that lbgen did not write, of the target `kind`, as a trial runs it.

    Raises `LbgenError` with the place of what keeps it from being run.
    """
    from lbgen.targets.haproxy.reading.foreign import HaproxyForeign  # noqa: PLC0415 - it takes the readers
    from lbgen.targets.nginx.reading.foreign import NginxForeign  # noqa: PLC0415 - likewise

    made: Mapping[str, Callable[[str, str], Foreign]] = {
        NGINX.name: NginxForeign,
        HAPROXY.name: HaproxyForeign,
    }
    return made[kind](name, text)
