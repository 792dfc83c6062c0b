"""Addresses that listeners share: what each `listen` line says, and who answers for unknown hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.nginx.features import has
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Fleet, Listener, TargetSettings
    from lbgen.units import Address


class Binds:
    """Every address of a fleet, with the listeners that share it."""

    def __init__(self, fleet: Fleet, settings: TargetSettings) -> None:
        self._settings = settings
        self._at: dict[Address, list[Listener]] = {}
        for listener in fleet.listeners:
            for bind in listener.binds:
                self._at.setdefault(bind, []).append(listener)

    def listens(self, listener: Listener) -> tuple[Syntax, ...]:
        """Return a listener's `listen` lines."""
        return tuple(line for bind in listener.binds for line in self._lines(bind, default=False))

    def unclaimed(self) -> Iterator[tuple[Listener, tuple[Syntax, ...]]]:
        """Yield, for each address whose listeners all have hosts, the first of them and `listen` lines.

        Without a server block of its own, NGINX would give a request for an unknown host to the first.
        """
        for bind, sharing in self._at.items():
            if all(listener.hosts for listener in sharing):
                yield sharing[0], self._lines(bind, default=True)

    def _lines(self, bind: Address, *, default: bool) -> tuple[Syntax, ...]:
        # Options belong to the socket: lines that differ warn "protocol options redefined" (seen on 1.26.3).
        sharing = self._at[bind]
        words = ["default_server"] if default else []
        tls = any(listener.tls for listener in sharing)
        if tls:
            words.append("ssl")
        old_spelling = not has(self._settings.version, "http2_directive")
        if tls and old_spelling and any(listener.http2 for listener in sharing):
            words.append("http2")
        if any(listener.accept_proxy for listener in sharing):
            words.append("proxy_protocol")
        return listen_lines(bind, words)


def listen_lines(bind: Address, words: list[str]) -> tuple[Syntax, ...]:
    """Return the lines for one address; `*` is every address, IPv4 and IPv6."""
    hosts = [f"{bind.port}", f"[::]:{bind.port}"] if bind.host == "*" else [str(bind)]
    return tuple(Syntax(" ".join([host, *words])) for host in hosts)
