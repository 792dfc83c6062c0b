"""What looks like a fault and is none."""

from __future__ import annotations

import pytest

from lbgen.audit import audit
from lbgen.readers.files import read_configurations

TCP = """\
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen ssh
    bind :2222
    server s1 10.0.0.9:22
listen vllm
    bind :8080
    mode http
    server v1 10.0.0.1:8000
"""
ONE_BEHIND_TCP = TCP.replace("listen vllm", "listen middleware\n    option httpchk GET /health").replace(
    "    mode http\n", ""
)
READY = """\
frontend in
    bind :8080
    mode http
    acl ready nbsrv(vllm) ge 1
    acl probe path /health
    http-request return status 200 content-type text/plain string ok if probe ready
    default_backend vllm
backend vllm
    mode http
    server v1 10.0.0.1:8000
"""
PLACES = """\
upstream vllm { server 10.0.0.1:8000; keepalive 8; }
server {
    listen 80;
    proxy_http_version 1.1;
    location /metrics { allow 10.0.0.0/8; deny all; proxy_pass http://vllm; }
    location /v1/embeddings { proxy_pass http://vllm; }
    location /v1/chat/ { proxy_pass http://vllm; proxy_buffering off; proxy_read_timeout 10m; }
}
"""
REWRITTEN = """\
upstream vllm { server 10.0.0.1:8000; }
server { listen 80; location /api { rewrite ^/api/(.*) /$1 break; proxy_pass http://vllm/; } }
"""
COMPUTED = """\
limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;
upstream vllm { server 10.0.0.1:8000; }
server { listen 80; location / { limit_req zone=a burst=20 delay=many; proxy_pass http://vllm; } }
"""


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("rewritten", REWRITTEN, "path-joined-wrong"),
        ("odd-delay", COMPUTED, "limit-delays"),
        ("ssh", TCP, "balanced-by-connection"),
        ("one-server", ONE_BEHIND_TCP, "balanced-by-connection"),
        ("tcp", ONE_BEHIND_TCP, "delayed-tokens"),
        ("ready", READY, "check-says-yes"),
        ("metrics", PLACES, "timeout-below-generation"),
        ("embeddings", PLACES, "buffered-streams"),
    ],
)
def test_is_quiet(tmp_path, name, text, code):
    path = tmp_path / name
    path.write_text(text)
    places = [
        str(one.location) for one in audit(read_configurations([str(path)]), {}).problems if one.code == code
    ]
    assert places == ([f"{path}:9:1"] if (name, code) == ("ssh", "delayed-tokens") else [])


def test_says_which_header_is_lost(tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text(
        'upstream vllm { server 10.0.0.1:8000; keepalive 8; }\nproxy_set_header Connection "";\n'
        "server { listen 80; proxy_http_version 1.1;\nlocation / {\n"
        "proxy_set_header Host $host; proxy_pass http://vllm; } }\n"
    )
    (one,) = [
        one for one in audit(read_configurations([str(path)]), {}).problems if one.code == "connection-closed"
    ]
    assert (one.location.line, "line 2" in one.message) == (5, True)


def test_sees_grpc(tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text("upstream t { server triton:8001; }\nserver { location / { grpc_pass grpc://t; } }\n")
    found = {(one.code, one.location.line) for one in audit(read_configurations([str(path)]), {}).problems}
    assert {("name-resolved-once", 1), ("timeout-below-generation", 2)} <= found
