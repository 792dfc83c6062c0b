"""What all routes of one listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.nginx.views import Check, Pair
    from lbgen.targets.spec import Syntax


class Frame(NamedTuple):
    """The listener's part of each location."""

    listener: Listener
    checks: tuple[Check, ...]
    """Who may come in, asked where a request enters."""
    access: tuple[Syntax, ...]
    """Limits and external authorisation, applied where a request enters."""
    headers: tuple[Pair, ...]
    """Of the response."""
    request_headers: tuple[tuple[str, str], ...]
    """Of the request on its way to a server: names and syntax."""
    hide: tuple[str, ...]
    """Of the server's response."""
    errors: tuple[Syntax, ...]
    """The listener's `error_page` lines, for locations that need one more."""
    extra: tuple[Syntax, ...]
    """The fleet's `raw` lines for locations."""
    split_key: str
    """What tells clients apart for `split … by: client`."""
    tunnels: bool
    """True: WebSocket handshakes are passed on by some routes."""
    websocket: bool
    """True: by all that do not say otherwise."""
    inspect: int
    """Bytes of a body that are looked at."""
    upload: Syntax
    """The buffer for forms, which carry files."""
