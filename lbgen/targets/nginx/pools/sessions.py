"""Sessions and their servers.

A consistent hash of the session's name holds while servers live, have room, and none is added. Versions that
remember (1.29.6) keep sessions where they are then too, and learn names from responses.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from lbgen.model import State
from lbgen.strategies.session import session_of
from lbgen.targets.common.listeners import only_over_tls
from lbgen.targets.nginx.features import FEATURES, has
from lbgen.targets.nginx.inspection import bodies
from lbgen.targets.nginx.language.quoting import escape_regex, regex_word
from lbgen.targets.nginx.routes.conditions import header_variable
from lbgen.targets.nginx.views import NOTHING, Pair
from lbgen.targets.spec import Syntax
from lbgen.vocabulary import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Pool, Server, TargetSettings
    from lbgen.strategies.session import SessionParameters
    from lbgen.targets.nginx.assembly import Assembly

_OPAQUE = "~^[0-9a-f]{32}$"
"""What $request_id looks like, the random number that becomes a session's name."""
_MEMORY = "16m timeout=8h"
"""Room for about 100,000 sessions. 8 h: a session outlives a lunch break."""


def refusal(pool: Pool, settings: TargetSettings) -> Refused | None:
    """Return why this pool's sessions cannot be kept; None where they can."""
    by, remembers = session_of(pool), has(settings.version, "sticky")
    if by and by.learn and not remembers:
        since = FEATURES["sticky"].since
        return Refused(
            f"cannot learn sessions from responses before NGINX {since}",
            "session: {insert: lb_session}, if clients keep cookies; or the HAProxy target",
        )
    if remembers and by and (by.learn or by.insert):
        return None
    # Seen on 1.22.1: "balancing method does not support parameter "backup"" with hash and random.
    if any(server.backup for server in pool.servers):
        return Refused(
            f"cannot be '{pool.strategy.name}' in a pool with backup servers",
            "strategy: least_conn, or a separate pool for the backups with when_down",
        )
    return None


def method(made: Assembly, by: SessionParameters) -> Syntax:
    """Return the directive that chooses a server for a session that has none, or that is hashed."""
    if has(made.settings.version, "sticky") and (by.learn or by.insert):
        return Syntax("least_conn")
    # An empty key takes round robin (seen on 1.22.1, 1.26.3 and 1.30.6), so requests without one spread.
    return Syntax(f"hash {_name(made, by)} consistent")


def sticky(made: Assembly, pool: Pool, upstream: str) -> Syntax:
    """Return the directive by which sessions are remembered; empty: none is."""
    by = session_of(pool)
    if by is None or not by.strict or not has(made.settings.version, "sticky"):
        return NOTHING
    if by.insert:
        return Syntax(f"sticky cookie {by.insert} path=/ httponly{_secure(made, pool)}")
    name = _name(made, by)
    create = Syntax(f"$upstream_{header_variable(by.learn).removeprefix('$')}") if by.learn else name
    # `header`: a session is known from the response's first byte on, not from its last.
    return Syntax(f"sticky learn create={create} lookup={name} zone={upstream}-session:{_MEMORY} header")


def keeps_drained(pool: Pool, server: Server, settings: TargetSettings) -> bool:
    """Tell whether a server that is drained goes on with the sessions that it has."""
    by = session_of(pool)
    promised = by is not None and by.strict and has(settings.version, "sticky")
    return promised and server.state is State.DRAIN


def response_headers(made: Assembly, pool: Pool) -> Iterator[Pair]:
    """Yield the cookie that names a new session, where NGINX itself has none to insert."""
    by = session_of(pool)
    if by is None or not by.insert or has(made.settings.version, "sticky"):
        return
    cookie = _cookie(made, by.insert)
    text = f'"{by.insert}=$request_id; Path=/; HttpOnly{"; Secure" if _secure(made, pool) else ""}"'
    # An empty header is not sent.
    name = made.flag(cookie, [("default", text), (regex_word(_OPAQUE), '""')])
    yield Pair(Syntax("Set-Cookie"), name)


def _secure(made: Assembly, pool: Pool) -> str:
    return " secure" if only_over_tls(made.fleet, pool) else ""


def _name(made: Assembly, by: SessionParameters) -> Syntax:
    """Return the variable with a session's name; empty: there is none."""
    if by.ip or by.client:
        return Syntax("$remote_addr" if by.ip else "$lb_client")
    if by.insert:
        cookie = _cookie(made, by.insert)
        return made.flag(cookie, [("default", "$request_id"), (regex_word(_OPAQUE), cookie)])
    if by.cookie:
        return _cookie(made, by.cookie)
    if by.query:
        return _captured(made, "$args", rf"~(?:^|&){escape_regex(by.query)}=(?<KEY>[^&]+)")
    return bodies.text_member(made, by.body) if by.body else header_variable(by.header or "")


def _cookie(made: Assembly, name: str) -> Syntax:
    return _captured(made, "$http_cookie", rf"~(?:^|; *){escape_regex(name)}=(?<KEY>[^;]+)")


def _captured(made: Assembly, source: str, regex: str) -> Syntax:
    """Return the variable with a regex's group KEY: by map, since `$cookie_a-b` would end at the hyphen."""
    capture = f"lb_session_{zlib.crc32(regex.encode()):08x}"
    entries = [("default", '""'), (regex_word(regex.replace("KEY", capture)), f"${capture}")]
    return made.map(source, f"${capture}_key", entries)
