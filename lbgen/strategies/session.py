"""The same server for the same session."""

from typing import TYPE_CHECKING, NamedTuple

from lbgen.fields import Boolean, Field, Group, Struct, Text
from lbgen.strategies.spec import MadeBy, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Pool

NAME = r"[A-Za-z0-9_-]{1,64}"
"""A header's, cookie's or parameter's name, as far as NGINX can name it in a variable."""
MEMBER = r"\$\.[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,64})?"
"""A member of a JSON object, or of an object in it."""
DEFAULT_HEADER = "X-Session-Id"
NAMED_BY = ("header", "cookie", "query", "body", "ip", "client")
"""Where the name of a session can stand in a request."""


class SessionParameters(NamedTuple):
    """What names a session, and whether its server is a hint or a promise."""

    header: str | None = None
    cookie: str | None = None
    query: str | None = None
    body: str | None = None
    """A member of the JSON body, such as ``$.user``."""
    ip: bool = False
    client: bool = False
    strict: bool = False
    """True as well where the name is learned or inserted."""
    learn: str | None = None
    """The response header in which servers name the session."""
    insert: str | None = None
    """The cookie that the balancer sets."""

    @classmethod
    def of(cls, written: "Mapping[str, object]") -> "SessionParameters":
        """Return the parameters of a strategy as a fleet holds them."""
        values = {**completed(written), "learn": _learned(written)}
        given = cls(**values)  # type: ignore[arg-type]  # the schema's types
        return given._replace(strict=given.strict or bool(given.learn or given.insert))


def completed(written: "Mapping[str, object]") -> "dict[str, object]":
    """Return what was written of a session's parameters, with the header where no source is named."""
    chosen = {key: value for key, value in written.items() if value}
    if any(source in chosen for source in (*NAMED_BY, "insert")):
        return chosen
    return {"header": _learned(chosen) or DEFAULT_HEADER, **chosen}


def _learned(written: "Mapping[str, object]") -> str | None:
    learn = written.get("learn")
    header = learn.get("header") if isinstance(learn, dict) else None
    return header if isinstance(header, str) else None


SESSION = Strategy(
    name="session",
    aliases=("sticky", "sticky_session", "sticky_sessions", "session_affinity"),
    summary="keeps each conversation on one server",
    advice=(
        "For conversations whose turns share a long prefix, so that the server's KV cache still holds it, "
        "and for servers that keep a session's state. As it is, the server is a hint: the API is stateless, "
        "and a session that moves costs time and breaks nothing, so that HAProxy passes a busy server over. "
        "With `strict`, `learn` or `insert` it is a promise: a session never leaves a living server, however "
        "busy. A request that names no session, or an empty one, is spread."
    ),
    parameters=(
        Field(
            "header",
            Text("a header's name", pattern=NAME, limit=64),
            doc="The request header that names the session.",
            default_doc="X-Session-Id, when no other source is named; with learn, the header that is learned",
            example="X-Session-Id",
        ),
        Field(
            "cookie",
            Text("a cookie's name", pattern=NAME, limit=64),
            doc="The cookie that names the session.",
            example="chat_session",
        ),
        Field(
            "query",
            Text("the name of a query parameter", pattern=NAME, limit=64),
            doc="The query parameter that names the session.",
            example="session",
        ),
        Field(
            "body",
            Text("a member of the JSON body, such as $.user", pattern=MEMBER, limit=160),
            doc="The text of the JSON body that names the session: a member of its own or of one object.",
            example="$.metadata.user_id",
        ),
        Field("ip", Boolean(), doc="The client's address is the session.", example=True),
        Field("client", Boolean(), doc="The client (its key) is the session.", example=True),
        Field(
            "strict",
            Boolean(),
            default=False,
            doc="Whether a session never leaves a living server, whatever its load.",
        ),
        Field(
            "learn",
            Struct(
                "where servers name the sessions that they begin",
                Field(
                    "header",
                    Text("a header's name", pattern=NAME, limit=64),
                    doc="The response header with the name.",
                    example="Mcp-Session-Id",
                    required=True,
                ),
            ),
            doc="Servers name the sessions, and requests repeat the name; implies strict.",
        ),
        Field(
            "insert",
            Text("a cookie's name", pattern=NAME, limit=64),
            doc="The cookie that the balancer itself sets, for clients that keep cookies; implies strict.",
            example="lb_session",
        ),
    ),
    chooser=MadeBy("sessions", "ideal"),
    needs=frozenset({"session"}),
    groups=(
        Group((*NAMED_BY, "insert"), least=0),
        Group(("learn", "insert"), least=0),
    ),
)


def session_of(pool: "Pool") -> SessionParameters | None:
    """Return the parameters of a pool that keeps sessions; None for other strategies."""
    return SessionParameters.of(pool.strategy.parameters) if pool.strategy.name == SESSION.name else None
