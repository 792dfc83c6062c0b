"""The form in which paths of routes and of requests are compared, the same on every target."""

from __future__ import annotations

import re
from urllib.parse import unquote


def compared(path: str) -> str:
    """Return a route's path as it is compared: escapes decoded once, runs of slashes as one.

    NGINX compares so by itself (`merge_slashes`); servers that merge slashes, such as Ollama, would else
    serve `//api/delete` past a route for `/api/delete`.
    """
    return re.sub("//+", "/", unquote(path))
