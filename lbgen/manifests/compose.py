"""Compose: the balancer in front of services that run already, with the rendered files mounted."""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING, Any

from lbgen.fleet.rules.rule import is_everywhere
from lbgen.manifests.inside import inside
from lbgen.manifests.order import Made
from lbgen.manifests.probes import live
from lbgen.manifests.yaml_text import documents
from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.manifests.inside import Inside
    from lbgen.manifests.order import Order
    from lbgen.manifests.probes import Probe
    from lbgen.units import Address

MAIN = "compose.yaml"
RESOLVER = "127.0.0.11:53"
"""Docker's own, in every container of a network that Compose made."""
SPARE_S = 15
"""Seconds between the last stream's end and the kill."""


def compose(order: Order) -> Made:
    """Return the files of the target with a Compose file beside them."""
    placed = inside(order, own_addresses=True)
    value: dict[str, Any] = {"services": {order.target: _service(order, placed)}}
    if order.network:
        value["networks"] = {"default": {"external": True, "name": _literal(order.network)}}
    text = documents(order.header + _advice(order), value)
    return Made(
        (RenderedFile(MAIN, text), *placed.files), (*placed.notes, *_names(order), *_beside(order, placed))
    )


def _names(order: Order) -> Iterator[str]:
    """Yield what to do about services that are made anew, with another address behind their name."""
    for pool in order.fleet.pools:
        if pool.dns.mode == "static" and any(server.address.is_name for server in pool.servers):
            yield (
                f"pool {pool.name}: names are looked up at the start alone; reload after a service was "
                f'made anew, or follow them: dns: {{mode: runtime, resolver: ["{RESOLVER}"]}}'
            )


def _advice(order: Order) -> str:
    reload = f"docker compose kill -s {order.program.reload_signal} {order.target}"
    return f"# After a change of the fleet, render again, and then: {reload}\n"


def _service(order: Order, placed: Inside) -> dict[str, Any]:
    program, settings = order.program, order.settings
    made: dict[str, Any] = {
        "image": _literal(order.image_name),
        # In place of the image's own, which would write to its root file system.
        "entrypoint": [_literal(word) for word in program.in_container(settings.directory)],
        "user": _user(order, placed),
        "restart": "unless-stopped",
        "stop_signal": f"SIG{program.stop_signal}",
        "stop_grace_period": f"{-(-settings.drain_timeout // 1000) + SPARE_S}s",
        "ports": list(dict.fromkeys(map(_port, placed.published))),
        "volumes": [f".:{_literal(settings.directory)}:ro", *map(_mount, _outside(order, placed))],
        "read_only": True,
        "tmpfs": ["/tmp", *(f"{_literal(folder)}:mode=1777" for folder in placed.writable)],  # noqa: S108
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "healthcheck": {
            "test": ["CMD", "bash", "-c", _literal(asking(live(order.fleet)))],
            "interval": "10s",
            "timeout": "3s",
            "retries": 3,
        },
    }
    if _has_keys(placed) and program.as_root:
        made["cap_add"] = list(program.as_root)
    if placed.privileged is not None:
        made["sysctls"] = {"net.ipv4.ip_unprivileged_port_start": placed.privileged}
    return made


def _user(order: Order, placed: Inside) -> str:
    if _has_keys(placed):
        # Files with keys are their owner's alone, and a mounted file keeps its owner.
        return "${LBGEN_USER:?UID:GID of who rendered the files in secrets}"
    user = order.program.user
    return f"{user}:{user}"


def _has_keys(placed: Inside) -> bool:
    return any(file.secret for file in placed.files)


def _port(bind: Address) -> str:
    """Return how a bind is published: at the same address and port of the machine that runs Compose."""
    host = "" if is_everywhere(bind.host) else f"[{bind.host}]:" if ":" in bind.host else f"{bind.host}:"
    return f"{host}{bind.port}:{bind.port}"


def _outside(order: Order, placed: Inside) -> list[str]:
    """Return the paths outside of the folder that the configuration names: they are mounted by themselves."""
    folder = order.settings.directory.rstrip("/") + "/"
    return [path for path in placed.foreign if posixpath.isabs(path) and not path.startswith(folder)]


def _beside(order: Order, placed: Inside) -> Iterator[str]:
    """Yield which files of the user's belong into the folder."""
    outside = _outside(order, placed)
    inner = [path for path in placed.foreign if path not in outside]
    if inner:
        yield f"put {', '.join(inner)} beside {MAIN}: the folder is mounted as {order.settings.directory}"


def _mount(path: str) -> str:
    return f"{_literal(path)}:{_literal(path)}:ro"


def asking(probe: Probe) -> str:
    """Return a line of bash that succeeds when the probe does; no image has to hold curl for it."""
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{probe.port}"
    if probe.path is None or probe.tls:
        return connect
    lines = (f"GET {probe.path} HTTP/1.0", f"Host: {probe.host or 'localhost'}", "")
    words = " ".join(map(shlex.quote, lines))
    return f"{connect} && printf '%s\\r\\n' {words} >&3 && read -r _ status _ <&3 && [[ $status == 200 ]]"


def _literal(text: str) -> str:
    """Return a text that Compose takes as it is: a dollar sign would name a variable."""
    return text.replace("$", "$$")
