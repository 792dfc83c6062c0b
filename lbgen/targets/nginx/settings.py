"""The keys under ``targets.nginx``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from lbgen.fields import AutoInteger, Field, Integer, ListOf, Struct, Text
from lbgen.targets.settings import DRAIN_TIMEOUT, WITHOUT, SettingsTable, directory, raw, user, version
from lbgen.targets.spec import Room
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from lbgen.model import TargetSettings

OLDEST = Version(1, 22)
DIRECTORY = "/etc/nginx"
_FEW_CONNECTIONS = 512
"""NGINX's own default of `worker_connections`."""


class Own(NamedTuple):
    """What only NGINX has."""

    workers: int | None = None
    """Worker processes; None: as many as there are cores."""
    connections: int = 8192
    modules: tuple[str, ...] = ()


def own(settings: TargetSettings) -> Own:
    """Return the settings that only NGINX has."""
    return cast("Own", settings.own)


def room(settings: TargetSettings) -> Room:
    """Return the connections of all workers together, which NGINX counts to clients and to servers."""
    workers, connections, _ = own(settings)
    return Room("connections", connections * (workers or 1), 2, _FEW_CONNECTIONS, whole=workers is not None)


SETTINGS = SettingsTable(
    Struct(
        "settings of NGINX",
        version(OLDEST, "1.26"),
        directory(DIRECTORY),
        Field(
            "workers",
            AutoInteger(1, 1024),
            doc="Worker processes.",
            default_doc="auto, one a core",
            example=4,
            instead_of=("worker_processes",),
        ),
        Field(
            "connections",
            Integer(64, 1_000_000),
            8192,
            "The maximum number of connections of a worker, to clients and servers together.",
            instead_of=("worker_connections",),
        ),
        user("The user of the workers.", "nginx"),
        Field(
            "modules",
            ListOf(Text("a module's name", pattern=r"[A-Za-z0-9_./-]{1,200}"), single=True),
            [],
            "Modules that lbgen may use, such as njs.",
            example=["njs"],
        ),
        DRAIN_TIMEOUT,
        WITHOUT,
        raw("http", "server", "location"),
    ),
    Own,
)
