"""What a mock GPU server does wrong, on command.

A fault comes from the control API (for the next N requests, or until cleared) or with a
request of its own, in the header ``x-mock-fault``: ``status:503``, ``hang``, ``reset``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lbgen.lab.mock import openai_api

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.lab.mock.http_server import Exchange, Request

KINDS = {
    "status": "answers with a status, as an error in OpenAI's form",
    "hang": "takes the request and never answers",
    "reset": "breaks the connection (RST) before the headers",
    "close": "closes the connection (FIN) before the headers",
    "garbage": "answers with bytes that are no HTTP",
    "slow": "waits, then works as usual",
    "reset_after_headers": "breaks the connection (RST) after the headers",
    "half": "breaks the connection (RST) after half of the tokens",
    "half_close": "closes the connection (FIN) after half of the tokens, without ending the answer",
}
"""Every fault, with what it does."""

MID_STREAM = frozenset({"reset_after_headers", "half", "half_close"})
"""Faults that happen while the answer is being sent."""

HEADER = "x-mock-fault"
LONGEST_S = 86_400


@dataclass(slots=True)
class Fault:
    """One fault, as it was ordered."""

    kind: str
    status: int = 503
    delay_s: float = 0.0
    """How long ``slow`` waits, and every other fault before it strikes."""
    path: str = "/v1/"
    """Prefix of the paths that it strikes: ``/health`` makes a sick health check."""
    count: int | None = None
    """How many requests it strikes; None: until cleared."""
    retry_after: str | None = None
    struck: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no fault is called '{self.kind}': one of {', '.join(KINDS)}")
        if not 200 <= self.status <= 599:
            raise ValueError(f"{self.status} is not the status of an answer: from 200 to 599")
        if not 0 <= self.delay_s <= LONGEST_S:
            raise ValueError(f"{self.delay_s:g} are not seconds to wait: from 0 to {LONGEST_S}")
        if not self.path.startswith("/"):
            raise ValueError(f"'{self.path}' is not a path: it begins with /")

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Fault:
        """Return the fault for the control API's JSON; raises `ValueError`."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from None

    @classmethod
    def from_header(cls, text: str) -> Fault:
        """Return the fault for ``kind`` or ``kind:argument``; raises `ValueError`."""
        kind, _, argument = text.partition(":")
        if kind == "status":
            return cls(kind, status=int(_number(kind, argument or "503", int)))
        return cls(kind, delay_s=_number(kind, argument or "0", float))

    @classmethod
    def from_text(cls, text: str) -> Fault:
        """Return the same with ``@PATH`` behind it: which paths it strikes; raises `ValueError`."""
        what, at, path = text.partition("@")
        fault = cls.from_header(what)
        return replace(fault, path=path) if at else fault


def _number(kind: str, text: str, as_number: Callable[[str], float]) -> float:
    try:
        return as_number(text)
    except ValueError:
        if kind not in KINDS:
            return 0.0  # the kind is what is wrong first
        raise ValueError(f"'{text}' is not a number, which {kind} wants") from None


class Faults:
    """The faults that are ordered and not yet used up."""

    def __init__(self) -> None:
        self.ordered: list[Fault] = []

    def pick(self, request: Request) -> Fault | None:
        """Return the fault that strikes a request, and count it; raises `ValueError` for an unknown one."""
        own = request.header(HEADER)
        if own is not None:
            return Fault.from_header(own)
        for fault in self.ordered:
            left = fault.count is None or fault.struck < fault.count
            if left and request.path.startswith(fault.path):
                fault.struck += 1
                return fault
        return None


async def strike(fault: Fault, exchange: Exchange) -> bool:
    """Do what strikes before the answer; return whether the request is done with."""
    if fault.delay_s:
        await asyncio.sleep(fault.delay_s)
    if fault.kind == "status":
        wait = (("retry-after", fault.retry_after),) if fault.retry_after else ()
        body = openai_api.error(fault.status, f"status {fault.status} on command")
        await exchange.respond(fault.status, body, (*openai_api.JSON, *wait))
    elif fault.kind == "hang":
        await asyncio.Event().wait()  # until the client leaves, which cancels the task
    elif fault.kind == "reset":
        exchange.reset()
    elif fault.kind == "close":
        exchange.hang_up()
    elif fault.kind == "garbage":
        await exchange.garbage(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    return fault.kind not in MID_STREAM | {"slow"}
