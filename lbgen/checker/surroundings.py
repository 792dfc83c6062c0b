"""What a checker can and cannot have where it runs: names, users, addresses, files."""

from __future__ import annotations

import grp
import os
import pwd
import socket
from errno import EADDRINUSE
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.checker.certificate import throwaway_bundle

if TYPE_CHECKING:
    from lbgen.units import Address


class Surroundings:
    """A machine, or the inside of a container; remembers, by kind, what was stood in for."""

    def __init__(self, folder: Path, target_folder: str, *, in_container: bool, resolve: bool) -> None:
        self.folder = folder
        """Where the rendered files and all stand-ins are: below it everything may be written."""
        self.in_container = in_container
        self.resolve = resolve
        self.replaced: dict[str, list[str]] = {}
        self._target_folder = Path(target_folder)
        self._hosts: dict[str, str] = {}

    def note(self, kind: str, name: str) -> None:
        """Remember that something was stood in for."""
        names = self.replaced.setdefault(kind, [])
        if name not in names:
            names.append(name)

    def host(self, name: str) -> str:
        """Return an address for a host name, the same for the same name; with ``resolve`` the name itself."""
        if self.resolve or name == "localhost":
            return name
        self.note("host names, not looked up without --resolve", name)
        return self._hosts.setdefault(name, _loopback(1, len(self._hosts)))

    def user(self, name: str | None) -> str | None:
        """Return a user that the program can become: the one named, or whoever runs it."""
        if name is None:
            return None
        if not self.in_container and _is_known(name) and os.geteuid() == 0:
            return name
        self.note("user", name)
        return "root" if self.in_container or os.geteuid() == 0 else None

    def file(self, path: str) -> str | None:
        """Return where the program can read a file of the target's machine; None when it cannot."""
        if self.in_container:
            return None
        found = self._target_folder / path
        readable = found.is_file() or found.is_dir()
        return str(found) if readable and os.access(found, os.R_OK) else None

    def certificate(self, kind: str, *paths: str) -> str:
        """Return a throwaway certificate with its key in one file, in the place of these files."""
        for path in paths:
            self.note(kind, path)
        bundle = self.folder / "stand-ins" / "bundle.pem"
        if not bundle.exists():
            bundle.parent.mkdir(exist_ok=True)
            bundle.write_text(throwaway_bundle(), encoding="ascii")
        return str(bundle)

    def loopback(self, number: int) -> str:
        """Return an address of this machine that no stand-in for a host name has."""
        return _loopback(200, number)

    def listens(self, address: Address) -> bool:
        """Tell whether a listener could be opened at an address; one that is in use counts as good."""
        if self.in_container:
            return address.host == "*"
        hosts = ["0.0.0.0", "::"] if address.host == "*" else [address.host]  # noqa: S104 - closed at once
        return all(_can_bind(host, address.port) for host in hosts)


def _loopback(block: int, number: int) -> str:
    """Return the address of a number up to 62,499 in a block of 127.0.0.0/8."""
    return f"127.{block + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"


def _is_known(user: str) -> bool:
    # NGINX wants a group of the user's name as well: getgrnam() fails for Debian's nobody (seen on 1.22).
    try:
        pwd.getpwnam(user)
        grp.getgrnam(user)
    except KeyError:
        return False
    return True


def _can_bind(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.errno == EADDRINUSE  # nginx -t lets it pass (seen on 1.22)
    return True
