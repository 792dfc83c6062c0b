"""Listeners and clients: who may call what, and how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.fields import INVALID
from lbgen.fleet.build.context import items, usable
from lbgen.fleet.build.model_list import with_answers
from lbgen.fleet.build.pools import response_headers
from lbgen.fleet.build.routes import default_routes, routes
from lbgen.fleet.schema import listener as table
from lbgen.model import (
    Acme,
    Auth,
    Client,
    ClientTimeouts,
    Cors,
    ExternalAuth,
    Limit,
    Listener,
    ListenerTls,
    Secret,
    Status,
)
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.fleet.build.context import Context
    from lbgen.model import Pool, Route
    from lbgen.problems import Path

_DEFAULT_BIND = Address("*", 8080)


def listener(
    context: Context, name: str, written: Mapping[str, Any], pools: Sequence[Pool], clients: Sequence[Client]
) -> Listener:
    """Return the listener that a mapping describes."""
    values = table.LISTENER.filled(written)
    path = ("listeners", name)
    auth = _auth(context, written, path)
    known = [client for client in clients if client.name in auth.clients]
    _complain(context, written, path)
    status = table.STATUS.filled(written.get("status") or {})
    served = written.get("status", {}) is not None
    if status["live"] and status["live"] == status["ready"]:
        message = f"'live' and 'ready' are both {status['live']}: the two probes need different paths"
        key = "ready" if context.document.written((*path, "status", "ready")) else "live"
        context.error("bad-value", message, (*path, "status", key), "write two paths")
    return Listener(
        name=name,
        binds=tuple(items(values, "bind")) or (_DEFAULT_BIND,),
        hosts=tuple(items(values, "hosts")),
        tls=ListenerTls(**table.TLS.filled(values["tls"])) if values["tls"] else None,
        redirect_from=tuple(items(values, "redirect_from")),
        acme=_acme(context, values["acme"], path),
        http2=values["http2"],
        max_body=values["max_body"],
        header_size=values["header_size"],
        inspect_body=table.INSPECT.filled(values["inspect"])["body"],
        timeouts=ClientTimeouts(**table.CLIENT_TIMEOUTS.filled(values["timeouts"])),
        behind_proxy=values["behind_proxy"],
        explain=values["explain"],
        trusted_proxies=tuple(items(values, "trusted_proxies")),
        accept_proxy=values["accept_proxy"],
        allow=tuple(items(values, "allow")),
        deny=tuple(items(values, "deny")),
        auth=auth,
        limits=_limits(written.get("limits"), auth, (*path, "limits"), context),
        cors=_cors(context, values["cors"], path),
        response_headers=response_headers(values["response_headers"]),
        websocket=values["websocket"],
        routes=_routes(context, written, pools, known, (*path, "routes")),
        status=Status(status["live"], status["ready"], status["when"]) if served else _NO_STATUS,
        path=path,
    )


_NO_STATUS = Status(None, None, "any_pool")


def _routes(
    context: Context,
    written: Mapping[str, Any],
    pools: Sequence[Pool],
    clients: Sequence[Client],
    path: Path,
) -> tuple[Route, ...]:
    given = written.get("routes")
    if given is INVALID:
        return ()
    made = routes(context, given, path) if given else default_routes(context, pools, path)
    return with_answers(made, pools, clients, path)


def _complain(context: Context, written: Mapping[str, Any], path: Path) -> None:
    tls = written.get("tls")
    if isinstance(tls, dict) and not ("certificate" in tls and ("bundle" in tls or "directory" in tls)):
        context.needs_pair(tls, "certificate", "key", (*path, "tls"), "a file with both is a 'bundle'")
    if written.get("redirect_from") and "tls" not in written:
        message = "'redirect_from' redirects to HTTPS, but the listener has no 'tls'"
        context.error("key-without-effect", message, (*path, "redirect_from"), on_key=True)


def _acme(context: Context, written: Mapping[str, Any] | None, path: Path) -> Acme | None:
    if not written:
        return None
    values = table.ACME.filled(written)
    if values["pool"]:
        context.known_pool(values["pool"], (*path, "acme", "pool"))
    return Acme(values["pool"], values["webroot"])


def _cors(context: Context, written: Mapping[str, Any] | None, path: Path) -> Cors:
    if not written:
        return Cors()
    values = table.CORS.filled(written)
    origins = tuple(items(values, "origins"))
    if values["credentials"] and "*" in origins:
        message = "browsers send no cookies to a server that allows every origin"
        place = (*path, "cors", "credentials")
        context.error("conflicting-keys", message, place, "list the allowed origins")
    lists = {key: tuple(items(values, key)) for key in ("methods", "headers", "expose")}
    return Cors(origins, **lists, credentials=values["credentials"], max_age=values["max_age"])


def _auth(context: Context, listener_written: Mapping[str, Any], path: Path) -> Auth:
    written = listener_written.get("auth")
    if not isinstance(written, dict):
        if written is None and context.clients:
            message = f"the fleet has clients, but '{path[-1]}' has no 'auth': it would serve everybody"
            hint = "write 'auth: {clients: all}', or 'auth: none' if everybody may call"
            context.error("listener-without-auth", message, path, hint, on_key=True)
        return _OPEN
    values = table.AUTH.filled(written)
    external = _external(values["external"])
    return Auth(
        clients=_auth_clients(context, written, (*path, "auth")),
        header=values["header"],
        upstream=_upstream(values["upstream"]),
        external=external,
        except_from=tuple(items(values, "except")),
        required=True,
        websocket_protocol=values["websocket_protocol"],
    )


_OPEN = Auth((), "Authorization", "strip", None, (), required=False)


def _auth_clients(context: Context, written: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    named = written.get("clients")
    if named is INVALID or (named is None and "external" in written):
        return ()
    if isinstance(named, list):
        return tuple(
            name
            for index, name in enumerate(named)
            if name is not INVALID and context.known_client(name, (*path, "clients", index))
        )
    if not context.clients:
        message = "the listener requires keys, but the fleet has no 'clients'"
        context.error("no-clients", message, path, "define 'clients' with their keys, or write 'auth: none'")
    return context.clients


def _external(written: Mapping[str, Any] | None) -> ExternalAuth | None:
    if not written or usable(written.get("url"), None) is None:
        return None
    values = table.EXTERNAL.filled(written)
    return ExternalAuth(values["url"], tuple(items(values, "forward")))


def _upstream(written: Any) -> str | Secret:  # noqa: ANN401 - a word, or a mapping with a secret
    if isinstance(written, dict):
        secret: Secret = usable(written.get("set"), Secret("env", "REFUSED"))
        return secret
    return str(written)


def _limits(written: Any, auth: Auth, path: Path, context: Context) -> tuple[Limit, ...]:  # noqa: ANN401
    single = not context.document.written((*path, 0))
    made = []
    for index, entry in enumerate(usable(written, ())):
        if entry is INVALID:
            continue
        values = table.LIMIT.filled(entry)
        per = values["per"] or ("client" if auth.clients else "ip")
        where = path if single else (*path, index)
        made.append(Limit(values["rate"], values["burst"], values["concurrent"], per, where))
    return tuple(made)


def client(context: Context, name: str, written: Mapping[str, Any]) -> Client:
    """Return the client that a mapping describes."""
    values = table.CLIENT.filled(written)
    path = ("clients", name)
    pools = items(values, "pools")
    single = not context.document.written((*path, "pools", 0))
    for index, pool in enumerate(pools):
        context.known_pool(pool, (*path, "pools") if single else (*path, "pools", index))
    return Client(
        name=name,
        keys=(values["key"],) if values["key"] else tuple(items(values, "keys")),
        priority=values["priority"],
        rate=values["rate"],
        burst=values["burst"],
        max_in_flight=values["max_in_flight"],
        pools=tuple(pools),
        path=path,
    )
