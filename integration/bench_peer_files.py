"""Files for NGINX and HAProxy as people write them by hand, for the bench of peers. Data, with sources.

Changed alone: the port that they listen on, and the servers' names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.render import RenderedFile

if TYPE_CHECKING:
    from collections.abc import Sequence

NGINX_SOURCE = "https://docs.vllm.ai/en/latest/deployment/nginx.html"
"""Its `upstream` and `server`; around them the `nginx.conf` that NGINX's official image has."""

_NGINX = """\
user www-data;
worker_processes auto;
error_log /dev/stderr notice;
events { worker_connections 1024; }
http {
    default_type application/octet-stream;
    log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent';
    access_log /dev/stdout main;
    sendfile on;
    keepalive_timeout 65;
    upstream backend {
        least_conn;
SERVERS
    }
    server {
        listen 8080;
        location / {
            proxy_pass http://backend;
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
        }
    }
}
"""
_NGINX_SERVER = "        server {name}:8000 max_fails=3 fail_timeout=10000s;"

HAPROXY_SOURCE = "/etc/haproxy/haproxy.cfg of Debian's package"
"""Its `defaults`; vLLM's documentation has no file for HAProxy, so behind them the least that balances."""

_HAPROXY = """\
global
    log stdout format raw local0
    user haproxy
    group haproxy

defaults
    log global
    mode http
    option httplog
    option dontlognull
    timeout connect 5000
    timeout client 50000
    timeout server 50000

frontend vllm
    bind *:8080
    default_backend servers

backend servers
    balance leastconn
SERVERS
"""
_HAPROXY_SERVER = "    server {name} {name}:8000 check"

STICK_SOURCE = "three lines more: `stick on` a digest of the first and the second message"

_STICK = """\
    stick-table type string len 48 size 100k expire 30m
    http-request set-var(txn.second) req.body,json_query($.messages[1].content)
    http-request set-var(txn.who) req.body,json_query($.messages[0].content),concat(,txn.second),sha1,hex
    stick on var(txn.who)
"""
_BUFFER = "global\n    tune.bufsize 1114112\n"

_FILES = {
    "nginx": ("nginx.conf", _NGINX, _NGINX_SERVER),
    "haproxy": ("haproxy.cfg", _HAPROXY, _HAPROXY_SERVER),
    "stick": (
        "haproxy.cfg",
        _HAPROXY.replace("global\n", _BUFFER, 1)
        .replace("option dontlognull", "option dontlognull\n    option http-buffer-request")
        .replace("SERVERS", _STICK + "SERVERS"),
        _HAPROXY_SERVER,
    ),
}


def file(kind: str, names: Sequence[str]) -> tuple[RenderedFile]:
    """Return a file for these servers: ``nginx``, ``haproxy``, or ``stick`` for HAProxy."""
    path, text, server = _FILES[kind]
    return (RenderedFile(path, text.replace("SERVERS", "\n".join(server.format(name=one) for one in names))),)


SOURCES = {"nginx": NGINX_SOURCE, "haproxy": HAPROXY_SOURCE, "stick": STICK_SOURCE}
