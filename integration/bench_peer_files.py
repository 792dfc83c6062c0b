"""Files for NGINX and HAProxy as people write them by hand, for the bench of peers. Data, with sources.

Changed alone: the port that they listen on, and the servers' names.
"""

from __future__ import annotations

from integration.fleets import SERVERS
from lbgen.render import RenderedFile

NGINX_SOURCE = "https://docs.vllm.ai/en/latest/deployment/nginx.html"
"""Its `upstream` and `server`; around them the `nginx.conf` that NGINX's official image has."""

_NGINX = """\
user www-data;
worker_processes auto;
error_log /dev/stderr notice;
pid /run/nginx.pid;
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
_NGINX_SERVERS = [f"        server {name}:8000 max_fails=3 fail_timeout=10000s;" for name in SERVERS]

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
_HAPROXY_SERVERS = [f"    server {name} {name}:8000 check" for name in SERVERS]

FILES = {
    "nginx": (RenderedFile("nginx.conf", _NGINX.replace("SERVERS", "\n".join(_NGINX_SERVERS))),),
    "haproxy": (RenderedFile("haproxy.cfg", _HAPROXY.replace("SERVERS", "\n".join(_HAPROXY_SERVERS))),),
}
SOURCES = {"nginx": NGINX_SOURCE, "haproxy": HAPROXY_SOURCE}
