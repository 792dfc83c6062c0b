"""The keys under ``targets.haproxy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from lbgen.fields import AutoInteger, Field, Integer, Struct
from lbgen.targets.settings import (
    ABSOLUTE,
    DRAIN_TIMEOUT,
    WITHOUT,
    SettingsTable,
    directory,
    raw,
    user,
    version,
)
from lbgen.targets.spec import Room
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from lbgen.model import TargetSettings

OLDEST = Version(2, 6)
DIRECTORY = "/etc/haproxy"


class Own(NamedTuple):
    """What only HAProxy has."""

    threads: int | None = None
    """None: as many as there are cores."""
    max_connections: int = 20_000


def own(settings: TargetSettings) -> Own:
    """Return the settings that only HAProxy has."""
    return cast("Own", settings.own)


def room(settings: TargetSettings) -> Room:
    """Return the connections of clients."""
    return Room("max_connections", own(settings).max_connections)


SETTINGS = SettingsTable(
    Struct(
        "settings of HAProxy",
        version(OLDEST, "3.0"),
        directory(DIRECTORY),
        Field(
            "threads",
            AutoInteger(1, 64),
            doc="Threads; HAProxy has at most 64 in one group (2.6 to 3.0).",
            default_doc="auto, one a core",
            example=4,
            instead_of=("nbthread",),
        ),
        Field(
            "max_connections",
            Integer(100, 2_000_000),
            20_000,
            "The maximum number of client connections.",
            instead_of=("maxconn",),
        ),
        user("The user of the process.", "haproxy"),
        Field(
            "runtime_socket",
            ABSOLUTE,
            doc="The socket for drain, status and plan.",
            default_doc="none",
            example="/run/haproxy/admin.sock",
            instead_of=("stats_socket", "socket"),
        ),
        DRAIN_TIMEOUT,
        WITHOUT,
        raw("global", "defaults", "frontend", "backend"),
    ),
    Own,
    only_written=frozenset({"max_connections"}),
)
