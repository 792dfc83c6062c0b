"""Every target that lbgen can render for. A new one is one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.envoy import ENVOY
from lbgen.targets.haproxy import HAPROXY
from lbgen.targets.nginx import NGINX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.targets.spec import Target

TARGETS: Mapping[str, Target] = {target.name: target for target in (NGINX, HAPROXY, ENVOY)}
USUAL = tuple(name for name, target in TARGETS.items() if target.abilities.usual)
"""What is rendered for where neither the fleet nor the command names targets."""
