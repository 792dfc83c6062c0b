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
    """Every socket of a fleet, with the listeners that share it."""

    def __init__(self, fleet: Fleet, settings: TargetSettings) -> None:
        self._settings = settings
        self._at: dict[str, list[Listener]] = {}
        self._redirecting = {
            _socket(line)
            for listener in fleet.listeners
            for bind in listener.redirect_from
            for line in listen_lines(bind)
        }
        for listener in fleet.listeners:
            for line in _lines(listener):
                self._at.setdefault(_socket(line), []).append(listener)

    def listens(self, listener: Listener) -> tuple[Syntax, ...]:
        """Return a listener's `listen` lines: one without hosts answers for all hosts that no other has.

        Else NGINX would take the server block that is written first.
        """
        return tuple(
            self._line(line, default=not listener.hosts and self._is_shared(line))
            for line in _lines(listener)
        )

    def unclaimed(self) -> Iterator[tuple[tuple[Listener, ...], tuple[Syntax, ...]]]:
        """Yield, for sockets whose listeners all have hosts, these listeners and the `listen` lines.

        Without a server block of its own, NGINX would give a request for an unknown host to the first.
        """
        found: dict[tuple[str, ...], list[str]] = {}
        for socket, sharing in self._at.items():
            if all(listener.hosts for listener in sharing):
                found.setdefault(tuple(listener.name for listener in sharing), []).append(socket)
        for sockets in found.values():
            yield tuple(self._at[sockets[0]]), tuple(self._line(socket, default=True) for socket in sockets)

    def shared(self) -> Iterator[tuple[Listener, ...]]:
        """Yield the listeners of each socket that several share."""
        yield from (tuple(sharing) for sharing in self._at.values() if len(sharing) > 1)

    def default(self, listener: Listener) -> Listener | None:
        """Return the listener that answers for unknown hosts where this one listens; None: the catch-all."""
        sharing = (other for line in _lines(listener) for other in self._at[_socket(line)])
        return next((other for other in sharing if not other.hosts), None)

    def header_size(self, listener: Listener) -> int:
        """Return the longest headers to read: the default server's bound holds until the host is known."""
        return max(one.header_size for one in self._deciding(listener))

    def header_timeout(self, listener: Listener) -> int:
        """Return how long headers may take, likewise, in milliseconds."""
        return max(one.timeouts.header for one in self._deciding(listener))

    def _deciding(self, listener: Listener) -> list[Listener]:
        """Return the listeners whose requests this one's server block may read before it knows the host."""
        sharing = [other for line in _lines(listener) for other in self._at[_socket(line)]]
        return [listener] if listener.hosts else sharing

    def _is_shared(self, line: str) -> bool:
        return len(self._at[_socket(line)]) > 1 or _socket(line) in self._redirecting

    def _line(self, line: str, *, default: bool) -> Syntax:
        # Options belong to the socket: lines that differ warn "protocol options redefined" (seen on 1.26.3).
        sharing = self._at[_socket(line)]
        words = ["default_server"] if default else []
        tls = any(listener.tls for listener in sharing)
        if tls:
            words.append("ssl")
        old_spelling = not has(self._settings.version, "http2_directive")
        if tls and old_spelling and any(listener.http2 for listener in sharing):
            words.append("http2")
        if any(listener.accept_proxy for listener in sharing):
            words.append("proxy_protocol")
        return Syntax(" ".join([line, *words]))


def listen_lines(bind: Address) -> tuple[Syntax, ...]:
    """Return the lines for one address, without options; `*` is every address, IPv4 and IPv6."""
    hosts = [f"{bind.port}", f"[::]:{bind.port}"] if bind.host == "*" else [str(bind)]
    return tuple(map(Syntax, hosts))


def _lines(listener: Listener) -> Iterator[Syntax]:
    for bind in listener.binds:
        yield from listen_lines(bind)


def _socket(line: str) -> str:
    """Return the socket that a line means: `8080` and `0.0.0.0:8080` are one."""
    return line.removeprefix("0.0.0.0:")
