"""From a workload's requests to what the load driver sends: texts, sessions, keys of the fleet's clients."""

from __future__ import annotations

import zlib
from http.cookies import SimpleCookie
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from lbgen.lab.load import Planned
from lbgen.lab.trial.load.prompts import messages_of, text_of
from lbgen.problems import LbgenError
from lbgen.secret_values import StandInSecrets
from lbgen.simulate.load.request import UNSET, Request
from lbgen.strategies.session import NAMED_BY, session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lbgen.lab.load import Result
    from lbgen.lab.trial.stage.mapping import Way
    from lbgen.model import Client, Fleet, Pool
    from lbgen.simulate.load.workload import Workload

SESSION_HEADER = "X-Session-Id"
SOURCES = 250
"""Addresses of this machine that sessions come from, where the address is the session."""


class Marks(NamedTuple):
    """How a request shows which session it belongs to, as the strategy looks for it."""

    kind: str = "header"
    name: str = SESSION_HEADER
    learned: str | None = None
    """The response header in which the servers name a session."""
    inserted: bool = False
    """The balancer names it, in the cookie."""

    @classmethod
    def of(cls, pool: Pool) -> Marks:
        """Return what a pool's strategy looks for."""
        by = session_of(pool)
        if by is None:
            return cls()
        if by.insert:
            return cls("cookie", by.insert, inserted=True)
        found = ((kind, getattr(by, kind)) for kind in NAMED_BY)
        kind, name = next((kind, str(name)) for kind, name in found if name)
        return cls(kind, name, by.learn)

    @property
    def answered(self) -> bool:
        """Tell whether the client names a session itself, or repeats what an answer said."""
        return self.inserted or self.learned is not None

    def name_in(self, answer: Mapping[str, str]) -> str | None:
        """Return the name that an answer gives a session."""
        if self.inserted:
            cookie = SimpleCookie(answer.get("Set-Cookie", "")).get(self.name)
            return None if cookie is None else cookie.coded_value
        return answer.get(self.learned) if self.learned else None

    def put(self, planned: Planned, name: str) -> Planned:
        """Return a request that names its session."""
        if self.kind == "query":
            return planned._replace(path=f"{planned.path}?{self.name}={name}")
        if self.kind == "body":
            *outer, last = self.name.removeprefix("$.").split(".")
            member: dict[str, object] = {last: name}
            return planned._replace(fields={outer[0]: member} if outer else member)
        headers = {"cookie": {"Cookie": f"{self.name}={name}"}, "header": {self.name: name}}
        return planned._replace(headers={**planned.headers, **headers.get(self.kind, {})})


class Sender:
    """Makes what is sent of a workload's requests, and what follows from their answers."""

    def __init__(
        self,
        workload: Workload,
        way: Way,
        pool: Pool,
        keys: Sequence[Mapping[str, str]],
        names: Sequence[str] = (),
    ) -> None:
        """`keys`: the headers of each client, `names`: what they are called; all of them send in turn."""
        self._workload = workload
        self._way = way
        self._marks = Marks.of(pool)
        self._by_session = session_of(pool) is not None
        self._keys = keys or ({},)
        self._names = names
        self.answered: Callable[[], None] | None = None
        """Called for every result, for whoever shows how far the run is."""
        self._numbers = count()
        self._speed = 1.0
        self._given: dict[str, str] = {}
        """What answers called the sessions."""

    @property
    def mock(self) -> Mapping[str, object]:
        """What mock GPU servers have to do for it."""
        return {"names_sessions": self._marks.learned}

    def planned(self, requests: Iterable[Request], speed: float) -> list[Planned]:
        """Return the requests that leave by themselves; `speed`: virtual seconds in one of the clock."""
        self._speed = speed
        self._given.clear()
        return [self._sent(one) for one in requests]

    def follow(self, result: Result) -> Planned | None:
        """Return the request that an answer brings about, such as a conversation's next turn."""
        if self.answered is not None:
            self.answered()
        request, now = result.planned.origin, result.ended_s * self._speed
        assert isinstance(request, Request)  # noqa: S101 - all that is sent here is made of one
        request.finished = now if result.ok else UNSET
        if request.session and (name := self._marks.name_in(result.headers)):
            self._given.setdefault(request.session, name)
        following = self._workload.follow(request, now)
        return None if following is None else self._sent(following)

    def _sent(self, request: Request) -> Planned:
        number = next(self._numbers)
        chunk = self._workload.chunk_tokens
        make = messages_of if self._way.chat else text_of
        session = request.session
        who = zlib.crc32(session.encode()) if session else number
        planned = Planned(
            request.arrived / self._speed, request.output_tokens, make(request, chunk, number),
            headers={**self._way.headers, **self._keys[who % len(self._keys)]},
            model=self._way.model, path=self._way.path, server_name=self._way.server_name,
            source=self._source(session), origin=request,
            client=self._names[who % len(self._keys)] if self._names else None,
        )  # fmt: skip
        if session is None or not (self._by_session or request.named):
            return planned
        if self._marks.answered:
            return planned._replace(leaving=self._marked)
        return self._marks.put(planned, session)

    def _marked(self, planned: Planned) -> Planned:
        """Name the session of a request that leaves now, if an answer has named it."""
        assert isinstance(planned.origin, Request)  # noqa: S101 - all that is sent here is made of one
        name = self._given.get(planned.origin.session or "")
        return self._marks.put(planned, name) if name else planned

    def _source(self, session: str | None) -> str | None:
        if session is None or self._marks.kind != "ip":
            return None
        return f"127.0.1.{zlib.crc32(session.encode()) % SOURCES + 1}"


def admitted_clients(fleet: Fleet, way: Way, pool: Pool) -> list[Client]:
    """Return the clients that may use the pool; none where no key is asked for.

    Raises `LbgenError` when a key is asked for and no client may.
    """
    asked = [one for one in fleet.clients if one.name in way.listener.auth.clients]
    admitted = [one for one in asked if not one.pools or pool.name in one.pools]
    if way.listener.auth.clients and not admitted:
        raise LbgenError(f"no client of the listener {way.listener.name} may use the pool {pool.name}")
    return admitted


def client_keys(fleet: Fleet, way: Way, pool: Pool) -> tuple[list[dict[str, str]], list[str]]:
    """Return the header with the key of each client that may use the pool, and secrets that are stood in for.

    Both are empty where no key is asked for. Raises `LbgenError` when no client may.
    """
    auth = way.listener.auth
    admitted = admitted_clients(fleet, way, pool)
    secrets = StandInSecrets()
    values = [secrets.resolve(one.keys[0]) for one in admitted]
    bearer = "Bearer " if auth.header.lower() == "authorization" else ""
    return [{auth.header: bearer + value} for value in values], [str(one) for one in secrets.missing]
