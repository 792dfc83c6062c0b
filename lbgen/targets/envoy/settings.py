"""The keys under ``targets.envoy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from lbgen.fields import AutoInteger, Field, Integer, Struct, Text
from lbgen.targets.settings import DRAIN_TIMEOUT, WITHOUT, SettingsTable, directory, raw, version
from lbgen.targets.spec import Room
from lbgen.units import Address, parse_address
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from lbgen.fields.base import Value
    from lbgen.model import TargetSettings

OLDEST = Version(1, 36)
DIRECTORY = "/etc/envoy"
_ADMIN = Address("127.0.0.1", 9901)


def _admin(text: str) -> Address:
    """Return the address, ``localhost`` as one too; raises `ValueError`."""
    address = parse_address(text)
    if address.host.lower().rstrip(".") == "localhost":
        return address._replace(host=_ADMIN.host)
    if address.is_name:
        raise ValueError(f"'{text}' is a name, which Envoy does not look up here: write an address")
    return address


class _Admin(Text):
    """One ``host:port``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("host:port", limit=64, parse=_admin)

    def written(self, value: Address) -> Value:
        return str(value)


class Own(NamedTuple):
    """What only Envoy has."""

    admin: Address = _ADMIN
    """Where it answers for its figures and its configuration; who reaches it may stop Envoy."""
    workers: int | None = None
    """None: as many as there are cores."""
    max_connections: int = 20_000
    in_one_file: bool = False
    """True: for the checker, which sees no other files."""


def own(settings: TargetSettings) -> Own:
    """Return the settings that only Envoy has."""
    return cast("Own", settings.own)


def room(settings: TargetSettings) -> Room:
    """Return the connections of clients."""
    return Room("max_connections", own(settings).max_connections)


SETTINGS = SettingsTable(
    Struct(
        "settings of Envoy",
        version(OLDEST, "1.38"),
        directory(DIRECTORY),
        Field(
            "admin",
            _Admin(),
            _ADMIN,
            "Where Envoy answers for its own state. Who reaches it can stop Envoy: a loopback address.",
            example="127.0.0.1:9901",
        ),
        Field(
            "workers",
            AutoInteger(1, 1024),
            doc="Worker threads.",
            default_doc="auto, one a core",
            example=4,
            instead_of=("concurrency", "threads"),
        ),
        Field(
            "max_connections",
            Integer(100, 2_000_000),
            20_000,
            "Connections of clients, all together.",
            instead_of=("max_active_downstream_connections",),
        ),
        DRAIN_TIMEOUT,
        WITHOUT,
        raw("bootstrap", "listener", "cluster"),
    ),
    Own,
)
