"""The ends of the tree that `lbgen.fleet.written.written` makes: values as a file writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.fleet.kinds import PATH_MODEL
from lbgen.model import Secret
from lbgen.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.model import Admin, Client, ClientTimeouts, Match, Route, Timeouts
    from lbgen.units import Address

DEFAULT = "default"


class Leaf(NamedTuple):
    """A value as a file writes it, and where it came from: ``prod.yaml:12``, ``default``, ``engine vllm``."""

    value: Any
    origin: str


class Remark(NamedTuple):
    """What a fleet file only says in a comment: to write it would change what is rendered."""

    tree: Any
    text: str


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of the model
    """Return a value of the model as a file writes it."""
    if isinstance(value, Secret):
        return str(value)
    if isinstance(value, tuple | list):
        # Addresses are tuples, too.
        return str(value) if hasattr(value, "_fields") else [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def times(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return values with the named ones, in milliseconds, written as durations."""
    return values | {name: format_duration(values[name]) for name in names if values[name] is not None}


def timeouts_values(timeouts: Timeouts | ClientTimeouts) -> dict[str, Any]:
    """Return timeouts as a file writes them."""
    return times(timeouts._asdict(), *timeouts._fields)


def admin_value(admin: Admin) -> Any:  # noqa: ANN401 - a word or a mapping
    """Return who may call admin paths as a file writes it."""
    named = [*admin.clients, *admin.networks]
    return {"clients": named} if named else "pass" if admin.open else "refuse"


def binds(binds: Iterable[Address]) -> list[Any]:
    """Return addresses to listen on as a file writes them."""
    return [bind.port if bind.host == "*" else str(bind) for bind in binds]


def there(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not empty."""
    return {key: value for key, value in values.items() if value}


def respond_values(route: Route) -> dict[str, Any]:
    """Return a fixed answer as a file writes it."""
    respond = route.respond
    if respond is None:
        return {}
    if respond.content_type == "application/json":
        try:
            data = json.loads(respond.body)
        except ValueError:
            data = None
        if data is not None and json.dumps(data, separators=(",", ":")) == respond.body:
            return {"status": respond.status, "json": data}
    return {"status": respond.status, "body": respond.body, "content_type": respond.content_type}


def conditions(match: Match) -> dict[str, Any]:
    """Return the conditions of a route as a file writes them."""
    given = {
        "host": match.hosts,
        "method": match.methods,
        "path": tuple(path + PATH_MODEL for path in match.paths) if match.path_model else match.paths,
        "path_exact": match.paths_exact,
        "header": match.headers,
        "query": match.query,
        "form": match.form,
        "model": match.models,
    }
    return {
        **there(given),
        "prompt_over": match.prompt_over and format_size(match.prompt_over),
        "prompt_under": match.prompt_under and format_size(match.prompt_under),
        "max_tokens_over": match.max_tokens_over,
        "websocket": match.websocket,
    }


def client_values(client: Client, one_key: bool) -> dict[str, Any]:
    """Return what a file says of a client, with its only key or the list of them."""
    return {
        "key": client.keys[0] if one_key else None,
        "keys": None if one_key else client.keys,
        "priority": client.priority,
        "rate": client.rate and str(client.rate),
        "burst": client.burst,
        "max_in_flight": client.max_in_flight,
        "pools": client.pools or None,
    }
