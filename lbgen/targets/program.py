"""What lbgen knows of a target's own program: how it is called, what it prints, how it checks files."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lbgen.model import Fleet
    from lbgen.vocabulary import Version

    Ask = Callable[[Sequence[str]], str]
    """Runs the program with arguments and returns what it prints."""


class Message(NamedTuple):
    """One complaint of a program about its configuration."""

    is_error: bool
    text: str
    file: str = ""
    """As the program named it; empty: it named none."""
    line: int = 0


class Program:
    """The program of a target. Arguments come without the program, commands with it."""

    name: str
    """As it is called on PATH and in its image."""
    user: int
    """The user and group that its official image has for it."""
    stop_signal: str
    """After which streams finish and no new ones come: ``QUIT``."""
    reload_signal = "HUP"
    """Which makes its first process read the files again."""
    settle_s = 0.0
    """Seconds after a reload until the next one may come."""
    master_socket = False
    """True: it can be told to reload over a socket, and answers."""
    levels: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Raw lines that it needs in a container, each a directive that the fleet's own lines may replace."""
    as_root: tuple[str, ...] = ()
    """The capabilities that it does not start without where its user is root."""

    def image(self, version: Version) -> str:
        """Return the official image of a version."""
        raise NotImplementedError

    def version(self, ask: Ask) -> Version | None:
        """Ask the program for its version; None when it does not say one."""
        raise NotImplementedError

    def package(self, ask: Ask) -> str:
        """Return the version of the distribution's package, where the program says it; else an empty text."""
        del ask
        return ""

    def in_foreground(self, main_file: Path) -> Sequence[str]:
        """Return the arguments that serve until it is ended; what it writes lies beside the main file."""
        raise NotImplementedError

    def in_container(self, directory: str) -> list[str]:
        """Return the command that serves as process 1, as any user, by the files in a folder."""
        raise NotImplementedError

    def checking(self, main_file: Path, version: Version) -> Sequence[str]:
        """Return the arguments that check a configuration and touch nothing outside its folder."""
        raise NotImplementedError


class Checks:
    """How a target's program looks at a configuration that it is only to check."""

    opens = False
    """True: it opens listeners and log files, as ``nginx -t`` does."""

    def stand_in(self, fleet: Fleet, folder: Path, ask: Ask) -> Fleet:
        """Return the fleet with what only this program needs, its files in the check's folder."""
        del ask
        return self.whole(fleet, folder)

    def whole(self, fleet: Fleet, folder: Path) -> Fleet:
        """Return the fleet whose main file, in this folder, holds all that is checked; most have no other."""
        del folder
        return fleet

    def messages(self, output: str) -> Iterator[Message]:
        """Yield what the program complained of."""
        raise NotImplementedError

    def lacking(self, messages: Sequence[Message]) -> str:
        """Return which file of the program's own is missing on this machine, such as a module; or nothing."""
        del messages
        return ""

    def without(self, fleet: Fleet) -> Fleet:
        """Return the fleet without what needs such files."""
        return fleet
