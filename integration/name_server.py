"""A name server whose answers a test changes while balancers ask it."""

from __future__ import annotations

import socket
import threading
from typing import Self

A, IN = 1, 1
NO_SUCH_NAME = 3
TTL_S = 1


class NameServer:
    """Answers questions for IPv4 addresses over UDP, from a thread; use it as a context manager.

    A name without addresses is unknown (NXDOMAIN). What is asked beside addresses has an empty answer.
    """

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.address = f"{address}:{self._socket.getsockname()[1]}"
        self.names: dict[str, tuple[str, ...]] = {}
        self.asked = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # An empty datagram to itself ends the thread: closing a socket does not wake who reads it.
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(4096)
            if not question:
                return
            self.asked += 1
            self._socket.sendto(self._answer(question), sender)

    def _answer(self, packet: bytes) -> bytes:
        """Return the answer to the one question of a packet (RFC 1035, section 4)."""
        labels, end = [], 12
        while packet[end]:
            labels.append(packet[end + 1 : end + 1 + packet[end]].decode("ascii").lower())
            end += 1 + packet[end]
        end += 1
        wanted = int.from_bytes(packet[end : end + 2], "big")
        question = packet[12 : end + 4]
        addresses = self.names.get(".".join(labels), ())
        given = addresses if wanted == A else ()
        flags = 0x8580 | (0 if addresses else NO_SUCH_NAME)
        head = packet[:2] + _words(flags, 1, len(given), 0, 0)
        return head + question + b"".join(_record(address) for address in given)


def _record(address: str) -> bytes:
    """Return an address record for the name in the question."""
    return _words(0xC00C, A, IN, 0, TTL_S, 4) + socket.inet_aton(address)


def _words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(2, "big") for number in numbers)
