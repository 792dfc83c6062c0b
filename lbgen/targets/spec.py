"""What a target is: a proxy that lbgen can render configuration for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lbgen.model import Fleet, Pool, Secret, TargetSettings
    from lbgen.problems import Problem
    from lbgen.secret_values import Joined
    from lbgen.targets.behaviour import Behaviour
    from lbgen.targets.inventory import Inventory
    from lbgen.targets.program import Checks, Program
    from lbgen.targets.settings import SettingsTable
    from lbgen.units import Address
    from lbgen.vocabulary import Feature, Refused, Support, Version


class Syntax(str):
    """Text in a target's own language, made by our code from checked values.

    Templates may emit it as it stands. A plain string passes only as a bare token;
    anything else that comes from the user goes through the `quote` filter first.
    """

    __slots__ = ()


class Part(NamedTuple):
    """How much of a configuration is rendered."""

    name: str
    """``all``: a complete file; ``http``: what goes into an existing http level (NGINX)
    or beside existing sections (HAProxy); ``upstreams``: the pools alone."""

    @property
    def whole(self) -> bool:
        return self.name == "all"


class Output(NamedTuple):
    """One file that a target wants: made from a template, or text as it stands."""

    path: str
    """Relative to the target's own folder."""
    template: str = ""
    """Name below ``templates/<target>/``; empty: `text` is the file."""
    context: Mapping[str, object] = {}
    text: str = ""
    secret: bool = False
    """Written with mode 0600."""
    comment: str = "#"
    """What begins a comment line in this file."""
    aside: bool = False
    """True: the proxy itself does not read it, and works without."""


class Secrets(Protocol):
    """Gives the values of secrets when files are written, or stand-ins when they are only looked at."""

    def resolve(self, secret: Secret) -> str:
        """Return the secret's value; raises `LbgenError` when it is not to be had."""

    def joined(self, path: str, made: Joined) -> str:
        """Return the text of the side file `path`, which is made of PEM files, one after the other.

        Raises `LbgenError` when one of them cannot be read and nothing may stand in for it.
        """


class Row(NamedTuple):
    """What a target makes of one key of the fleet file: a row of the reference's table."""

    key: str
    """Such as ``pools.*.queue.order``."""
    support: Support
    note: str = ""
    since: Version | None = None
    """From this version on it is rendered; `support` holds for older ones."""


class Room(NamedTuple):
    """How many connections a target may have, and the key that says so."""

    key: str
    connections: int
    per_request: int = 1
    """How many of them a request takes."""
    least: int = 0
    """Fewer are too few for any fleet."""
    whole: bool = True
    """False: it may have as many for each core of its machine, which nobody knows here."""


class Door(NamedTuple):
    """An address that a target binds for itself, and the key under ``targets.NAME`` that says so."""

    key: str
    address: Address


class Abilities(NamedTuple):
    """What a target does or does not do in each of its versions, for rules and predictions."""

    queues: bool = False
    """True: requests wait in it while every server is at its cap."""
    active_checks: bool = False
    """True: it asks the servers' health path by itself."""
    ejects: bool = False
    """True: servers that fail requests get none for a while, without being told so."""
    agent_checks: bool = False
    """True: it takes caps and weights from ``lbgen agent``."""
    backup_beside_affinity: bool = False
    """True: a pool may have backups where requests are bound to servers, or chosen at random."""
    runtime_socket: bool = False
    """True: its servers can be seen and changed over a socket while it runs."""
    metrics_status: bool = False
    """True: its metrics listener counts connections and requests, as ``stub_status`` does."""
    peers: bool = False
    """True: balancers share what they learn, on the addresses of `balancers.peers`."""
    usual: bool = True
    """True: it is rendered for where neither the fleet nor the command names targets."""
    one_file: bool = False
    """True: its files are many, and can be one."""
    watches: bool = False
    """True: it takes its files as they are replaced, without a reload; its main file at a start alone."""
    proxy_from_all: bool = False
    """True: who accepts the PROXY protocol expects it from everybody, not from the trusted alone."""


class Target(Protocol):
    """A proxy: what it can do by version, and how its files are made."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str:
        """As people write it: NGINX, HAProxy."""

    @property
    def main_file(self) -> str: ...
    @property
    def oldest(self) -> Version:
        """The oldest supported version, which is the default."""

    @property
    def directory(self) -> str:
        """Where its files live on a usual machine."""

    @property
    def features(self) -> Mapping[str, Feature]: ...
    @property
    def settings(self) -> SettingsTable:
        """The keys under ``targets.NAME``."""

    @property
    def strategies(self) -> Mapping[str, Callable[[Pool, TargetSettings], Refused | None]]:
        """For each strategy: None when it is rendered for this pool and version, else why not."""

    @property
    def support(self) -> tuple[Row, ...]:
        """Every key that is not simply rendered by every version."""

    def understands(self, key: str) -> bool:
        """Tell whether it does something about a key of the fleet file; one of no row is refused else."""

    def quote(self, text: str) -> Syntax:
        """Return the text as one literal word of this target's language; raises `ValueError`."""

    @property
    def abilities(self) -> Abilities: ...
    @property
    def behaviour(self) -> Behaviour:
        """How it chooses servers, for predictions."""

    @property
    def program(self) -> Program:
        """Its own program, to be called by whoever checks, starts, reloads or ends it."""

    @property
    def checks(self) -> Checks:
        """How that program looks at files that it is only to check."""

    def limits(self, fleet: Fleet) -> Iterator[Problem]:
        """Yield what this target cannot do for this fleet: degraded (warning) or refused (error)."""

    def notes(self, fleet: Fleet) -> Iterator[str]:
        """Yield what the configuration costs, for people to know; nothing here is a problem."""

    def read(self, text: str) -> Inventory:
        """Return what a main file says, made by this target or changed by hand since."""

    def room(self, settings: TargetSettings) -> Room:
        """Return how many connections it may have with these settings."""

    def doors(self, settings: TargetSettings) -> tuple[Door, ...]:
        """Return what it binds beside the fleet's listeners; who reaches it there is its master."""

    def outputs(self, fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
        """Return the files to render, the main file first; `limits` yielded no error."""
