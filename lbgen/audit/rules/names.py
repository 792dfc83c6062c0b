"""What servers are called, how their names become addresses, and what they are asked for."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from lbgen.audit.rule import AuditRule, Finding
from lbgen.fleet.rules.rule import is_loopback
from lbgen.problems import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.audit.haproxy_view import HaproxyView, Pool
    from lbgen.audit.nginx_view import NginxView, Pass
    from lbgen.problems import Location

_OLLAMA = ":11434"
_CLIENTS_HOST = re.compile(r"\$(?:host|http_host|server_name)\b.*|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}")
_LOCAL_NAME = re.compile(r"(?:.*\.)?(?:localhost|local|internal)(?::\d+)?")


def _host(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        names = [
            upstream.name
            for upstream in one.upstreams
            if re.search(rf"//(?:{re.escape(upstream.name)}(?:/|$)|\$)|^\$", one.directive.value)
        ]
        if not names or one.header("host") is not None or view.generated:
            continue
        name = next((name for name in names if "_" in name), names[0])
        harm = (
            "'_' is not allowed in a host name, and strict servers return 400"
            if "_" in name
            else "servers that check the host refuse it, and an application's redirects point to it"
        )
        yield Finding(
            one.directive.location,
            f"servers receive '{name}', the name of the upstream, as Host: {harm}",
            "proxy_set_header Host $host;",
            None if "_" in name else Severity.INFO,
        )


HOST = AuditRule(
    "upstream-name-as-host",
    Severity.WARNING,
    "servers receive the upstream's name as Host",
    "This is NGINX's default. A location that sets any header does not inherit the Host header of an"
    " outer level.",
    "sends the client's Host, or the value of 'host_header'",
    _host,
)


def _nginx_refused(view: NginxView) -> Iterator[Finding]:
    for one in view.passes:
        said = one.header("host")
        local = [address for address in _addresses(one) if _is_local_ollama(address)]
        sent = said.args[-1] if said is not None and len(said.args) > 1 else ""
        if said and local and _CLIENTS_HOST.fullmatch(sent) and not _LOCAL_NAME.fullmatch(sent):
            yield _refused(said.location, local[0], f"proxy_set_header Host localhost{_OLLAMA};")


def _addresses(one: Pass) -> list[str]:
    found = [address for upstream in one.upstreams for address in upstream.addresses]
    return found or [re.sub(r"^https?://|/.*", "", one.directive.value)]


def _is_local_ollama(address: str) -> bool:
    host = address.removesuffix(_OLLAMA)
    return host != address and is_loopback(host.strip("[]"))


def _haproxy_refused(view: HaproxyView) -> Iterator[Finding]:
    for pool in () if view.generated else view.pools:
        local = [server for server in pool.servers if _is_local_ollama(server.address)]
        if local and not pool.is_tcp and not _sets_host(pool):
            write = f"http-request set-header Host localhost{_OLLAMA}"
            yield _refused(local[0].line.location, local[0].address, write)


def _sets_host(pool: Pool) -> bool:
    lines = [line for one in (pool.section, *pool.fronts) for line in one.own("http-request")]
    verbs = {"set-header", "replace-header", "replace-value"}
    return any(line.words[1] in verbs and line.words[2].lower() == "host" for line in lines if line.words[2:])


def _refused(location: Location, address: str, write: str) -> Finding:
    return Finding(
        location,
        f"{address} receives the client's Host: an Ollama that listens only on this machine returns 403"
        " for any host that is not a local name",
        write,
    )


REFUSED_HOST = AuditRule(
    "host-refused",
    Severity.WARNING,
    "Ollama refuses the Host that it receives",
    "If it listens on loopback (the default), Ollama accepts 'localhost', addresses, and names that end"
    " in .local, .localhost or .internal.",
    "sends the value of 'host_header', and reports an Ollama on loopback that needs one",
    _nginx_refused,
    _haproxy_refused,
)


def _nginx_names(view: NginxView) -> Iterator[Finding]:
    if view.generated:
        return
    for upstream in view.upstreams:
        named = [one for one in upstream.servers if _is_name(one.value) and "resolve" not in one.args]
        if named:
            yield _once(named[0].location, f"'{upstream.name}'", _host_of(named[0].value), "server NAME:PORT")
    for one in view.passes:
        url = one.directive.value
        address = re.sub(r"^https?://|/.*", "", url)
        if not one.upstreams and _is_name(address):
            yield _once(
                one.directive.location, "this location", _host_of(address), "an upstream whose server"
            )


def _once(location: Location, whose: str, name: str, server: str) -> Finding:
    return Finding(
        location,
        f"NGINX resolves server names of {whose}, such as {name}, only at start-up: it does not start if"
        " a name is unknown, and a container that returns with another address gets no requests until the"
        " next reload",
        f"{server} with 'resolve', a zone and a resolver (NGINX 1.27.3); before that, start NGINX after"
        " the servers and reload it whenever addresses change",
    )


def _is_name(address: str) -> bool:
    """Tell whether a server is written by a name that DNS has to know."""
    host = _host_of(address)
    if address.startswith(("unix", "/", "fd@", "sockpair@", "abns@")) or re.search(r"[$%{]", host):
        return False
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return bool(re.fullmatch(r"[A-Za-z0-9_.-]*[A-Za-z_][A-Za-z0-9_.-]*", host)) and host != "localhost"
    return False


def _host_of(address: str) -> str:
    address = re.sub(r"^(?:ipv[46]|tcp[46]?)@", "", address)
    return re.sub(r":(?:[\d+-]*|\$\{?\w+\}?)$", "", address)


def _haproxy_names(view: HaproxyView) -> Iterator[Finding]:
    for pool in () if view.generated else view.pools:
        named = [one for one in pool.servers if _is_name(one.address) and one.parameter("resolvers") is None]
        if named:
            starts = "none" in (named[0].parameter("init-addr") or "").split(",")
            unknown = "" if starts else " it does not start if a name is unknown, and"
            yield Finding(
                named[0].line.location,
                f"HAProxy resolves server names of '{pool.name}', such as {_host_of(named[0].address)},"
                f" only at start-up:{unknown} a container that returns with another address gets no requests"
                " until the next reload",
                "default-server resolvers dns init-addr last,libc,none, with a section: resolvers dns,"
                " parse-resolv-conf",
            )


ONCE = AuditRule(
    "name-resolved-once",
    Severity.WARNING,
    "server names are resolved only once",
    "Containers and pods may get another address at each start: the old address then refuses connections"
    " or belongs to another server.",
    "follows DNS with 'dns: {mode: runtime}' (HAProxy, and NGINX since 1.27.3); without it, names are"
    " resolved only once as well",
    _nginx_names,
    _haproxy_names,
)


def _prefix(view: NginxView) -> Iterator[Finding]:
    for one, path, uri in _replaced(view):
        if path in {"/v1", "/v1/"} and uri == "/":
            yield Finding(
                one.directive.location,
                "the '/' after the host removes /v1 from the path: engines are asked for"
                " /chat/completions and return 404",
                f"proxy_pass {one.directive.value.rstrip('/')};",
            )


def _replaced(view: NginxView) -> Iterator[tuple[Pass, str, str]]:
    """Yield passes whose URI replaces the prefix of their location, with both."""
    for one in view.passes:
        location = one.level.around("location")
        if any("break" in said.args for said in one.level.all("rewrite")):
            continue  # the path is what the rewrite made of it
        words = [word for word in (location.args if location else ()) if word != "^~"]
        after = one.directive.value.partition("://")[2]
        if len(words) == 1 and words[0].startswith("/") and "/" in after and "$" not in after:
            yield one, words[0], after[after.index("/") :]


PREFIX = AuditRule(
    "v1-taken-off",
    Severity.ERROR,
    "/v1 is removed from the path",
    "A URI in `proxy_pass`, even a single slash, replaces the location's prefix.",
    "removes a prefix only where the fleet sets 'strip_prefix'",
    _prefix,
)


def _joined(view: NginxView) -> Iterator[Finding]:
    for one, path, uri in _replaced(view):
        if path.endswith("/") == uri.endswith("/") or (path.rstrip("/") == "/v1" and uri == "/"):
            continue
        rest = "v1/models" if path.endswith("/") else "/v1/models"
        right = f"{path}/" if uri.endswith("/") else path.rstrip("/") or "/"
        yield Finding(
            one.directive.location,
            f"only one of {path} and {uri} ends in '/', and NGINX replaces the one by the other"
            f" literally: {path}{rest} becomes {uri}{rest}, which is a 404",
            f"location {right} {{ proxy_pass {one.directive.value}; }}"
            if right != "/"
            else f"proxy_pass {one.directive.value}/;",
        )


JOINED = AuditRule(
    "path-joined-wrong",
    Severity.ERROR,
    "a slash in the path is lost or doubled",
    "A URI in `proxy_pass` replaces the location's prefix literally.",
    "matches and replaces whole segments",
    _joined,
)

RULES = (HOST, REFUSED_HOST, ONCE, PREFIX, JOINED)
