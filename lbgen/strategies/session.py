"""The same server for the same session."""

from lbgen.fields import Boolean, Field, Group, Text
from lbgen.strategies.spec import MadeBy, Strategy

NAME = r"[A-Za-z0-9_-]{1,64}"
"""A header's, cookie's or parameter's name, as far as NGINX can name it in a variable."""

SESSION = Strategy(
    name="session",
    aliases=("sticky", "sticky_session", "sticky_sessions", "session_affinity"),
    summary="keeps each conversation on one server",
    advice=(
        "For conversations whose turns share a long prefix, so that the server's KV cache still holds "
        "it. The API is stateless: a session that moves costs time and breaks nothing. A session that is"
        " missing is spread."
    ),
    parameters=(
        Field(
            "header",
            Text("a header's name", pattern=NAME, limit=64),
            doc="The request header that names the session.",
            default_doc="X-Session-Id, when no other source is named",
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
        Field("ip", Boolean(), doc="The client's address is the session.", example=True),
        Field("client", Boolean(), doc="The client (its key) is the session.", example=True),
    ),
    choosers={
        "ideal": MadeBy("rings", "IdealSession"),
        "nginx": MadeBy("rings", "NginxSession"),
        "haproxy": MadeBy("rings", "HaproxySession"),
    },
    needs=frozenset({"session"}),
    groups=(Group(("header", "cookie", "query", "ip", "client"), least=0),),
)
