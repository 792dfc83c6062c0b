"""Homes on NGINX, by what its version and its modules can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.strategies.choosers.counts import NginxLeastConn
from lbgen.strategies.choosers.learned import HaproxyPrefix
from lbgen.strategies.choosers.rings import NginxPrefix
from lbgen.strategies.choosers.sessions import Remembered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.vocabulary import Chooser


def nginx(parameters: Mapping[str, Any]) -> Chooser:
    """Return NGINX's chooser: the ``script`` of njs decides as HAProxy's tables do."""
    way = parameters.get("way")
    if way == "script":
        return HaproxyPrefix(parameters)
    hashed = NginxPrefix(parameters)
    if way == "sticky":
        return Remembered(NginxLeastConn({}), waits=False, name=hashed.key_of)
    return hashed
