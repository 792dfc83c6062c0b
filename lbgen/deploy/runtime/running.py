"""The servers that a HAProxy process runs, as its runtime socket tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.deploy.runtime.runtime_socket import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.deploy.runtime.runtime_socket import RuntimeSocket

FORCED_MAINT, CONFIGURED_MAINT, FORCED_DRAIN, UNRESOLVED = 0x01, 0x04, 0x08, 0x20
"""Bits of ``srv_admin_state`` (HAProxy's Management Guide, `show servers state`)."""
_AGENT_CONFIGURED = 0x02
_BACKEND, _SERVER = "1", "2"
"""The ``type`` of a row in `show stat`."""


class RunningServer(NamedTuple):
    """One server of one HAProxy process."""

    pool: str
    name: str
    address: str
    status: str
    """HAProxy's own word: ``UP``, ``DOWN``, ``UP 1/3``, ``DRAIN``, ``MAINT``, ``no check`` …"""
    admin: int
    """Who took it out of rotation: the bits above."""
    agent: bool
    """An agent is asked for its weight and state."""
    weight: int
    """What was configured or set last; slow start and agents lower the effective one for a while."""
    initial_weight: int
    """What the configuration said when the process started."""
    cap: int | None
    in_flight: int
    queued: int
    """Requests that wait for this very server."""
    rate: int
    """Requests in the last second."""
    check: str
    """The last check, in words; empty without one."""
    since_s: int | None
    """Seconds since it last went up or down."""

    @property
    def state(self) -> str:
        """What it does: ``up``, ``down``, ``drain`` or ``maint``."""
        word = self.status.partition(" ")[0].lower()
        return {"no": "up", "nolb": "drain"}.get(word, word)

    @property
    def unchecked(self) -> bool:
        """Tell whether it has health checks, and none of them has finished since the process started."""
        return self.check in {"INI", "UNK"} and self.state != "maint"

    @property
    def held(self) -> str:
        """How it was taken out of rotation at run time: ``drain`` or ``maint``; empty when it was not.

        What the file says (``disabled``, ``weight 0``) is not meant.
        """
        if self.admin & FORCED_DRAIN and self.initial_weight:
            return "drain"
        return "maint" if self.admin & FORCED_MAINT and not self.admin & CONFIGURED_MAINT else ""


class RunningPool(NamedTuple):
    """One backend of one HAProxy process."""

    in_flight: int
    queued: int
    """Requests that wait for any of its servers, or for a certain one."""
    rate: int
    """Requests in the last second."""


def running(socket: RuntimeSocket) -> dict[tuple[str, str], RunningServer]:
    """Return every server by pool and name; raises `LbgenError` when the socket does not answer."""
    return servers_of(socket.stats(), socket.states())


def servers_of(
    stats: Sequence[Mapping[str, str]], states: Sequence[Mapping[str, str]]
) -> dict[tuple[str, str], RunningServer]:
    """Return every server by pool and name, from the rows of `show stat` and `show servers state`."""
    counted = {(row["pxname"], row["svname"]): row for row in stats if row.get("type") == _SERVER}
    found = {(row["be_name"], row["srv_name"]): row for row in states}
    return {key: _server(found[key], row) for key, row in counted.items() if key in found}


def pools_of(stats: Sequence[Mapping[str, str]]) -> dict[str, RunningPool]:
    """Return every pool by name, from the rows of `show stat`; a colon is in the names of what is no pool."""
    return {
        row["pxname"]: RunningPool(*(number(row[column]) or 0 for column in ("scur", "qcur", "rate")))
        for row in stats
        if row.get("type") == _BACKEND and ":" not in row["pxname"]
    }


def _server(state: Mapping[str, str], row: Mapping[str, str]) -> RunningServer:
    host = f"[{state['srv_addr']}]" if ":" in state["srv_addr"] else state["srv_addr"]
    if state["srv_fqdn"] != "-":
        host = state["srv_fqdn"]
    return RunningServer(
        pool=row["pxname"],
        name=row["svname"],
        address=f"{host}:{state['srv_port']}",
        status=row["status"],
        admin=int(state["srv_admin_state"]),
        agent=bool(int(state["srv_agent_state"]) & _AGENT_CONFIGURED),
        weight=int(state["srv_uweight"]),
        initial_weight=int(state["srv_iweight"]),
        cap=number(row.get("slim")),
        in_flight=number(row["scur"]) or 0,
        queued=number(row["qcur"]) or 0,
        rate=number(row["rate"]) or 0,
        check=_check(row),
        since_s=number(row.get("lastchg")),
    )


def _check(row: Mapping[str, str]) -> str:
    # "L7OK", then the code and the words, where there are any: a check that has just begun is "* L7OK".
    said = (row.get("check_status"), row.get("check_code"), row.get("last_chk"))
    words = [word.removeprefix("* ") for word in said if word]
    return " ".join(dict.fromkeys(words))
