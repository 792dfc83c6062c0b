"""A fleet with all that one target has in one version, for what is not the same on both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from integration import test_edge_tls as certificates
from integration.edge import Ask, send
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import RenderedFile
from lbgen.targets.nginx.features import has
from lbgen.vocabulary import Version

if TYPE_CHECKING:
    from integration.asked_service import AskedService
    from integration.fleets import Proxy
    from integration.http2_server import Http2Server
    from lbgen.lab.boxes import Balancer
    from lbgen.problems import Problem

PLAIN, RPC, ASKING, METRICS, PAIR, FOLDER = 8080, 8084, 8085, 8404, 8443, 8444
OTHER = "other.example.org"
PASSWORD = "s3cret: $p"
SECRETS = {"METRICS": PASSWORD}


class Around(NamedTuple):
    """What runs on this machine, for the balancers to reach."""

    http2: Http2Server
    asked: AskedService


class One(NamedTuple):
    """A balancer, and what it is."""

    proxy: Proxy
    balancer: Balancer
    around: Around

    def get(self, port: int, ask: Ask, **more: Any) -> Any:
        """Send a request."""
        return send(self.balancer.address, port, ask, **more)

    def curl(self, *words: str) -> str:
        """Ask from inside the container, where HTTP/2 is spoken."""
        return self.balancer.run("curl", "-sk", "--max-time", "10", *words)


def has_h2c(proxy: Proxy) -> bool:
    return proxy.target == "haproxy" or has(Version.parse(proxy.version), "http2_upstream")


def has_plain_http2(proxy: Proxy) -> bool:
    return proxy.target == "haproxy" or has(Version.parse(proxy.version), "http2_directive")


def errors_of(fleet: dict[str, Any], proxy: Proxy) -> list[Problem]:
    """Return what is wrong with a fleet for one target and version."""
    source, versions = Source("f.yaml", json.dumps(fleet)), {proxy.target: proxy.version}
    loaded = load([source], environ={}, targets=(proxy.target,), versions=versions)
    return [problem for problem in loaded.problems if problem.is_error]


def fleet_for(proxy: Proxy, around: Around) -> dict[str, Any]:
    """Return all that this target has in this version."""
    server = {"engine": "http", "servers": [around.http2.address]}
    pools: dict[str, Any] = {
        "main": {"engine": "vllm", "servers": ["gpu-0:8000"]},
        "rpc": {**server, "protocol": "grpc"},
    }
    main = [{"pool": "main"}]
    secure = [{"path": "/rpc.Service", "pool": "rpc"}, *main]
    listeners: dict[str, Any] = {
        "plain": {"bind": str(PLAIN), "routes": main},
        "pair": {"bind": str(PAIR), "tls": pair(proxy), "routes": secure},
    }
    if has_h2c(proxy):
        pools["h2c"] = {**server, "protocol": "h2c", "health": {"path": "/healthz", "interval": "1s"}}
        listeners["plain"]["routes"] = [{"path": "/h2c", "pool": "h2c"}, *main]
    if has_plain_http2(proxy):
        listeners["rpc"] = {"bind": str(RPC), "routes": [{"pool": "rpc"}]}
    if proxy.target == "haproxy":
        listeners["folder"] = {"bind": str(FOLDER), "tls": {"directory": "certs/"}, "routes": main}
    else:
        listeners["asking"] = asking(around.asked.url)
    auth = {"user": "ops", "password": "env:METRICS"}
    metrics = {"bind": str(METRICS), "allow": ["10.0.0.0/8"], "auth": auth}
    return {"pools": pools, "listeners": listeners, "metrics": metrics}


def pair(proxy: Proxy) -> dict[str, str]:
    """Return certificate and key: HAProxy 2.6 wants both in one file, which lbgen makes where they are."""
    here = f"{certificates.folder()}/" if str(proxy) == "bookworm-haproxy" else ""
    return {"certificate": f"{here}server.crt", "key": f"{here}server.key"}


def asking(url: str) -> dict[str, Any]:
    """Return a listener that asks a service."""
    external = {"url": url, "forward": ["Authorization", "X-Team"]}
    auth = {"external": external, "except": ["127.0.0.0/8"]}
    return {"bind": str(ASKING), "auth": auth, "routes": [{"pool": "main"}]}


def beside() -> tuple[RenderedFile, ...]:
    """Return certificates: a pair of files, and a folder with one for each of two names."""
    place = certificates.folder()
    certificates.issue(place, "other", OTHER, f"subjectAltName=DNS:{OTHER}")
    named = {
        "server.crt": "server.crt",
        "server.key": "server.key",
        "certs/a.pem": "server.pem",
        "certs/b.pem": "other.pem",
    }
    return tuple(RenderedFile(path, (place / name).read_text()) for path, name in named.items())
