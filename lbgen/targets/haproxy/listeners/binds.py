"""Addresses to listen on, and TLS to the clients.

Profiles are those of Mozilla's server side TLS guideline, revision 5.7: *modern* is TLS 1.3 alone,
*intermediate* has TLS 1.2 with the guideline's ECDHE suites, as on NGINX.

Where listeners on one address differ in TLS, a `crt-list` tells them apart by the name that the client asks
for in its handshake, and `connection_rules` hold a request's host against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.paths import escape_regex
from lbgen.targets.common.tls_profiles import INTERMEDIATE_CIPHERS, TLS13_SUITES
from lbgen.targets.haproxy.language.quoting import quote
from lbgen.targets.haproxy.language.words import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.model import Listener, ListenerTls
    from lbgen.targets.haproxy.assembly import Assembly
    from lbgen.targets.haproxy.language.rules import Rules
    from lbgen.units import Address

_NO_TICKETS = "no-tls-tickets"
"""A ticket key that is never changed would undo forward secrecy."""


def binds(made: Assembly, listeners: tuple[Listener, ...], address: Address) -> Iterator[str]:
    """Yield the arguments of `bind` for one address of these listeners."""
    words = [""]
    http2 = any(listener.http2 for listener in listeners)
    if any(listener.accept_proxy and not listener.trusted_proxies for listener in listeners):
        words.append("accept-proxy")
    if any(listener.tls for listener in listeners):
        words += ["ssl", *_certificates(made, listeners), *_protocols(listeners), _NO_TICKETS]
        words.append("alpn h2,http/1.1" if http2 else "alpn http/1.1")
    elif not http2:
        words.append("proto h1")
    yield from (f"{host}{' '.join(words)}" for host in _hosts(address))


def _hosts(address: Address) -> Iterator[str]:
    if address.host == "*":
        # Two sockets: on one for both, IPv4 addresses would show as ::ffff:10.0.0.1.
        yield f"0.0.0.0:{address.port}"
        yield f"[::]:{address.port} v6only"
    else:
        yield str(address)


def plain_binds(address: Address) -> Iterator[str]:
    """Yield the arguments of `bind` for an address without TLS."""
    yield from _hosts(address)


def differ_in_tls(listeners: Iterable[Listener]) -> bool:
    """Tell whether a client's handshake depends on the listener that it is for."""
    return len({(*_manner(tls), listener.http2) for listener, tls in _secured(listeners)}) > 1


def differ_in_authority(listeners: Iterable[Listener]) -> bool:
    """Tell whether one listener's clients have no business, or another certificate, at another one."""
    return len({tls.client_ca for _, tls in _secured(listeners)}) > 1


def _manner(tls: ListenerTls) -> tuple[str, str | None]:
    return tls.profile, tls.client_ca


def _secured(listeners: Iterable[Listener]) -> list[tuple[Listener, ListenerTls]]:
    return [(listener, listener.tls) for listener in listeners if listener.tls]


def _certificates(made: Assembly, listeners: tuple[Listener, ...]) -> Iterator[str]:
    settings = [tls for _, tls in _secured(listeners)]
    if differ_in_tls(listeners):
        yield f"crt-list {made.certificate_list(_list_lines(made, listeners))}"
        return
    yield from dict.fromkeys(f"crt {_certificate(made, tls)}" for tls in settings)
    if settings[0].client_ca:
        yield f"ca-file {quote(settings[0].client_ca)} verify required"


def _protocols(listeners: tuple[Listener, ...]) -> Iterator[str]:
    if all(tls.profile == "modern" for _, tls in _secured(listeners)):
        yield "ssl-min-ver TLSv1.3"
    else:
        yield f"ssl-min-ver TLSv1.2 ciphers {INTERMEDIATE_CIPHERS}"
    yield f"ciphersuites {TLS13_SUITES}"


def _list_lines(made: Assembly, listeners: tuple[Listener, ...]) -> Iterator[str]:
    """Yield the lines of a `crt-list`: the first is for names that no other line has.

    Each has names of its own, since one without takes those of its certificate (seen on 2.6.12).
    """
    secured = _secured(listeners)
    # Who has no name to ask for is the listener without hosts, or a probe, which has no certificate to show.
    rest = [(one, tls) for one, tls in secured if not one.hosts] or [
        (one, tls._replace(client_ca=None)) for one, tls in secured[:1]
    ]
    for listener, tls in rest:
        yield f"{_certificate(made, tls)} [{_line_words(listener, tls)}] *"
    for listener, tls in secured:
        if listener.hosts:
            names = " ".join(host.lower() for host in listener.hosts)
            yield f"{_certificate(made, tls)} [{_line_words(listener, tls)}] {names}"


def _line_words(listener: Listener, tls: ListenerTls) -> str:
    words = [f"ca-file {quote(tls.client_ca)} verify required" if tls.client_ca else "verify none"]
    if tls.profile == "modern":
        words.append("ssl-min-ver TLSv1.3")
    words.append("alpn h2,http/1.1" if listener.http2 else "alpn http/1.1")
    return " ".join(words)


def _certificate(made: Assembly, tls: ListenerTls) -> str:
    if tls.bundle or tls.directory:
        return quote(tls.bundle or f"{(tls.directory or '').rstrip('/')}/")
    return made.pem(tls.certificate or "", tls.key)


def connection_rules(rules: Rules) -> None:
    """Refuse requests for a listener with an authority of its own on connections made for another one.

    Also those on a resumed session: TLS 1.3 resumes it for any name, certificate or none (seen on 2.6.12).
    """
    if not differ_in_authority(rules.listeners):
        return
    strict = [listener for listener, tls in _secured(rules.listeners) if tls.client_ca]
    for listener in strict:
        rules.of(listener)
        others = [host for other in rules.listeners if other is not listener for host in other.hosts]
        if listener.hosts:
            conditions = [_asked_for(rules, listener.hosts), "{ ssl_fc_sni,lower,strcmp(txn.lb_host) eq 0 }"]
        else:
            conditions = [f"!{_asked_for(rules, tuple(others))}"] if others else []
        own = "http-request set-var(txn.lb_own_connection) bool(true)"
        rules.add(own, *conditions, "!{ ssl_fc_is_resumed }")
    rules.of(None)
    wanted = rules.acl(("var(txn.lb_listener) -m str", [listener.name for listener in strict]))
    rules.add(refuse("misdirected"), wanted, "!{ var(txn.lb_own_connection) -m found }")


def _asked_for(rules: Rules, hosts: Iterable[str]) -> str:
    """Return the ACL for names that the `crt-list` takes for these hosts: `*` stands for one label there."""
    names = [host.lower() for host in hosts]
    exact = [name for name in names if not name.startswith("*.")]
    wild = [rf"^[^.]+{escape_regex(name[1:])}$" for name in names if name.startswith("*.")]
    tests = (("ssl_fc_sni,lower -m str", exact), ("ssl_fc_sni,lower -m reg", wild))
    return rules.acl(*((sample, patterns) for sample, patterns in tests if patterns))
