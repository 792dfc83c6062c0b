"""From a fleet to the files of NGINX and what their templates see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lbgen.targets.common.service import drop_in
from lbgen.targets.nginx.assembly import Assembly
from lbgen.targets.nginx.errors import add_error_maps
from lbgen.targets.nginx.inspection.bodies import add_scan
from lbgen.targets.nginx.language.quoting import quote
from lbgen.targets.nginx.language.words import duration
from lbgen.targets.nginx.listeners.edge import sites, with_whole_bodies
from lbgen.targets.nginx.listeners.metrics import metrics_site
from lbgen.targets.nginx.logs import access_log, log_fields, logged_client, logged_listener, syslog
from lbgen.targets.nginx.pools.affinity import decides
from lbgen.targets.nginx.pools.upstreams import probe_upstreams, upstreams
from lbgen.targets.nginx.settings import own
from lbgen.targets.nginx.variables import add_common_maps, add_server_map, hash_settings
from lbgen.targets.nginx.views import NOTHING, Log, Main
from lbgen.targets.spec import Output, Syntax

if TYPE_CHECKING:
    from lbgen.model import Fleet, Logs, TargetSettings
    from lbgen.targets.spec import Part, Secrets

_LEVELS = {"debug": "info", "info": "notice", "notice": "notice", "warning": "warn", "warn": "warn",
           "error": "error", "crit": "crit"}  # fmt: skip
"""NGINX's own `info` has a line for every client that leaves early; its `debug` needs another build."""


SECRETS = "secrets/lbgen.conf"


class Literal(NamedTuple):
    """A fixed text as a variable."""

    name: Syntax
    value: Syntax


def outputs(fleet: Fleet, part: Part, secrets: Secrets) -> tuple[Output, ...]:
    """Return the files to render, the main file first."""
    settings = fleet.target("nginx")
    # Upstreams alone cannot bring the script that njs needs.
    scripted = (
        settings if part.name != "upstreams" else settings._replace(own=own(settings)._replace(modules=()))
    )
    made = Assembly(fleet, scripted, secrets, whole=part.whole)
    blocks = upstreams(made)
    if part.name == "upstreams":
        add_scan(made)
        maps, reads = tuple(made.maps), bool(made.members)
        alone = {"part": part.name, "upstreams": blocks, "maps": maps, "reads_bodies": reads}
        return (Output("upstreams.conf", "nginx/upstreams.conf.j2", alone),)
    add_common_maps(made)
    servers = (*sites(made), *metrics_site(made))
    add_error_maps(made)
    log = _log(made, pooled=any(location.pool for site in servers for location in site.locations))
    add_scan(made)
    if made.members or made.scripts:
        servers = tuple(map(with_whole_bodies, servers))
    context: dict[str, object] = {
        "part": part.name,
        "reads_bodies": bool(made.members),
        "main": _main(made),
        "settings": (*(map(Syntax, hash_settings(made, servers)) if part.whole else ()), *made.directives),
        "literals": tuple(Literal(*item) for item in made.literals.items()),
        "includes": (Syntax(SECRETS),) if _has_secrets(made) else (),
        "maps": tuple(made.maps),
        "geos": tuple(made.geos),
        "splits": tuple(made.splits),
        "log": log,
        "upstreams": (*blocks, *probe_upstreams(made)),
        "sites": servers,
        "raw": tuple(map(Syntax, settings.raw.get("http", ()))),
    }
    name = "nginx" if part.whole else "http"
    service = (drop_in("nginx.service", settings.directory, _files(settings)),) if part.whole else ()
    return (
        Output(f"{name}.conf", f"nginx/{name}.conf.j2", context),
        *_secret_files(made),
        *_scripts(made),
        *service,
    )


def _has_secrets(made: Assembly) -> bool:
    return bool(made.secret_maps or any(made.secret_literals.items()))


def _secret_files(made: Assembly) -> tuple[Output, ...]:
    """Return the file of everything that holds a key: NGINX's master reads it, no worker does."""
    if not _has_secrets(made):
        return ()
    literals = tuple(Literal(*item) for item in made.secret_literals.items())
    context = {"literals": literals, "maps": tuple(made.secret_maps)}
    return (Output(SECRETS, "nginx/secrets.conf.j2", context, secret=True),)


def _scripts(made: Assembly) -> tuple[Output, ...]:
    """Return the njs file, if anything needs it."""
    if not made.scripts:
        return ()
    return (Output("lbgen.js", "nginx/lbgen.js.j2", {"scripts": tuple(made.scripts)}, comment="//"),)


def _log(made: Assembly, *, pooled: bool) -> Log:
    logs = made.fleet.logs
    if pooled:
        add_server_map(made)
    log = Log(
        combined=logs.format == "combined",
        access_log=access_log(logs) if made.whole else NOTHING,
        listener=logged_listener(made),
        client=logged_client(made),
        pool=Syntax("$lb_pool" if pooled else ""),
        server=Syntax("$lb_server" if pooled else ""),
        fields=tuple(log_fields(made)),
    )
    if decides(made):
        return log._replace(decision=Syntax("$lb_decision"), last=Syntax("$lb_left"))
    return log


def _main(made: Assembly) -> Main:
    logs, settings = made.fleet.logs, made.settings
    return Main(
        user=quote(settings.user) if settings.user else NOTHING,
        jit=bool(made.members),
        modules=(Syntax("modules/ngx_http_js_module.so"),) if made.scripts else (),
        workers=Syntax(own(settings).workers or "auto"),
        connections=own(settings).connections,
        files=_files(settings),
        shutdown=duration(settings.drain_timeout),
        error_log=Syntax(f"{_error_log(logs)} {_LEVELS.get(logs.level, 'notice')}"),
    )


def _files(settings: TargetSettings) -> int:
    """Return what a worker opens at once: each request takes two, one to the client, one to the server."""
    return 2 * own(settings).connections


def _error_log(logs: Logs) -> str:
    return syslog(logs) if logs.to.startswith("syslog:") else "stderr"
