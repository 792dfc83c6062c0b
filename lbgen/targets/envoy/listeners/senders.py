"""Who sends a request, and what is believed of what it says of itself: before any filter and any route.

Trusted proxies have a chain of filters of their own, as Envoy tells chains apart by who really connects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.common.claims import CLAIMS
from lbgen.targets.envoy.language.words import Node, cidr, header, typed
from lbgen.targets.envoy.routes.conditions import decides_once
from lbgen.targets.envoy.routes.route_parts import DIRECT, ODD, marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.model import Listener

_ID = "x-lb-id"
_KEPT_IDS = "^[A-Za-z0-9._:/+=-]+$"
_HOSTS = "^[A-Za-z0-9._-]+(:[0-9]+)?$"
_NOWHERE = "0.0.0.0"  # noqa: S104 - compared with networks, never bound


class Senders(NamedTuple):
    """Some of those who connect."""

    networks: tuple[str, ...]
    """Empty: all that are in no other."""
    manager: Node
    """What the connection manager is told of them."""


def senders(sharing: tuple[Listener, ...]) -> Iterator[Senders]:
    """Yield the trusted proxies in front of these listeners, if there are any, and all others."""
    trusted = tuple(dict.fromkeys(network for one in sharing for network in one.trusted_proxies))
    proxied = any(one.accept_proxy for one in sharing)
    told = [*_deciding(sharing), *_disbelieved(_scheme(sharing))]
    if trusted and not proxied:
        yield Senders(
            trusted,
            {**_forwarded(trusted), **_early(*_deciding(sharing), *_believed(sharing), *_unreadable())},
        )
    if trusted and proxied:
        # Whoever speaks the PROXY protocol passes on what its client says of itself.
        why = {"#": "The client is the address in the PROXY protocol header.", "use_remote_address": True}
        yield Senders(trusted, {**why, **_early(*told)})
        why = {"#": "The client is the connecting address, regardless of the PROXY protocol."}
        noted = _set(DIRECT, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%")
        yield Senders((), {**why, **_detect(custom_header=_by_header()), **_early(noted, *told)})
        return
    why = {
        "#": ("The client is the connecting address, regardless of its headers."),
        "use_remote_address": True,
    }
    yield Senders((), {**why, **_early(*told)})


def strangers(scheme: str) -> Node:
    """Return what a connection manager without a listener of the fleet's is told of all who connect."""
    return {"use_remote_address": True, **_early(*_disbelieved(scheme))}


def _forwarded(trusted: tuple[str, ...]) -> Node:
    networks = {"cidrs": [cidr(network) for network in trusted]}
    kind = "envoy.extensions.http.original_ip_detection.xff.v3.XffConfig"
    detect = typed(kind, xff_trusted_cidrs=networks, skip_xff_append={"value": False})
    why = "The client is the last address in X-Forwarded-For that is not a trusted proxy."
    return {"#": why, **_detect(xff=detect, custom_header=_by_header())}


def _by_header() -> Node:
    kind = "envoy.extensions.http.original_ip_detection.custom_header.v3.CustomHeaderConfig"
    return typed(kind, header_name=DIRECT)


def _detect(**configs: Node) -> Node:
    """Return what finds the client's address: the first of these that does."""
    extensions = [
        {"name": f"envoy.http.original_ip_detection.{name}", "typed_config": config}
        for name, config in configs.items()
    ]
    return {"use_remote_address": False, "original_ip_detection_extensions": extensions}


def _unreadable() -> Iterator[Node]:
    """Yield what names nobody where X-Forwarded-For names no address: else it would be the proxy itself."""
    yield from _remove(DIRECT)
    yield _set(DIRECT, _if('"x-forwarded-for" in request.headers', f'"{_NOWHERE}"', '""'))


def _early(*mutations: Node) -> Node:
    kind = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    name = "envoy.http.early_header_mutation.header_mutation"
    changes = [*_request_id(), *mutations]
    return {
        "early_header_mutation_extensions": [{"name": name, "typed_config": typed(kind, mutations=changes)}]
    }


def _set(name: str, value: str) -> Node:
    return {"append": header(name, value, formatted=True)}


def _remove(*names: str) -> Iterator[Node]:
    return ({"remove": name.lower()} for name in names)


def _if(condition: str, value: str, otherwise: str) -> str:
    """Return a value that depends on what the request says; an empty one changes nothing."""
    return f"%CEL({condition} ? {value} : {otherwise})%"


def _request_id() -> Iterator[Node]:
    """Yield what keeps a client's own id where it is harmless; else Envoy makes one."""
    given = 'request.headers["x-request-id"]'
    yield from _remove(_ID)
    yield _set(_ID, _if(f'{given}.matches("{_KEPT_IDS}") && size({given}) <= 128', given, '""'))
    yield from _remove("x-request-id")
    yield _set("x-request-id", f"%REQ({_ID})%")
    yield from _remove(_ID)


def _deciding(sharing: tuple[Listener, ...]) -> Iterator[Node]:
    """Yield what notes which headers come twice by which requests are routed; a listener asks for its own.

    1.40 compares each of several values with a route's, 1.36 all of them joined by a comma.
    """
    names = dict.fromkeys(name for one in sharing for name in decides_once(one))
    if names:
        yield from _remove(ODD)
    for name in names:
        noted = _set(ODD, _if(f'request.headers["{name}"].contains(",")', f'"{marked(name)}"', '""'))
        yield {"append": {**noted["append"], "append_action": "APPEND_IF_EXISTS_OR_ADD"}}


def _scheme(sharing: tuple[Listener, ...]) -> str:
    return "https" if sharing[0].tls else "http"


def _disbelieved(scheme: str) -> Iterator[Node]:
    yield from _remove(*CLAIMS)
    yield _set("x-forwarded-proto", scheme)
    yield _set("x-forwarded-host", "%REQ(:AUTHORITY)%")


def _believed(sharing: tuple[Listener, ...]) -> Iterator[Node]:
    proto, host = 'request.headers["x-forwarded-proto"]', 'request.headers["x-forwarded-host"]'
    own = f'"{_scheme(sharing)}"'
    said = f'("x-forwarded-proto" in request.headers) && {proto}.matches("^https?$")'
    yield _set("x-forwarded-proto", _if(said, proto, own))
    named = f'("x-forwarded-host" in request.headers) && {host}.matches("{_HOSTS}")'
    yield _set("x-forwarded-host", _if(named, host, "request.host"))
