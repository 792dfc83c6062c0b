"""``lbgen trial --beside``: files that others wrote, run by the real programs as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from integration.fleets import chat

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

REQUESTS = 40
SHORT = (f"--requests={REQUESTS}", "--rate=8", "--workload=fixed:output=40", "--format=json")

BUFFERED = """\
upstream gpus {
    least_conn;
    server gpu-0:8000 max_fails=3 fail_timeout=10000s;
    server gpu-1:8000 max_fails=3 fail_timeout=10000s;
}
server {
    listen 80;
    server_name _;
    location / {
        proxy_pass http://gpus;
        proxy_set_header Host $host;
    }
}
"""
WHOLE = """\
user nobody;
worker_processes 2;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events { worker_connections 512; }
http {
    log_format tiny '$remote_addr "$request" $status';
    access_log /var/log/nginx/access.log tiny;
    map $uri $which { default gpus; ~^/v2 10.9.9.9:80; }
    upstream gpus { server gpu-0:8000; server gpu-1:8000; }
    server {
        listen 443 ssl http2;
        listen [::]:443 ssl http2 ipv6only=on;
        server_name llm.example.org;
        ssl_certificate /etc/ssl/llm.pem;
        ssl_certificate_key /etc/ssl/llm.key;
        location ~ ^/v1/(chat/)?completions$ { proxy_pass http://$which; proxy_buffering off; }
        location /auth { proxy_pass http://auth.example.org:9000; }
    }
    server { listen 80 default_server; return 301 https://$host$request_uri; }
}
"""
DEBIAN = """\
global
	log /dev/log	local0
	chroot /var/lib/haproxy
	stats socket /run/haproxy/admin.sock mode 660 level admin
	user haproxy
	group haproxy
	daemon
defaults
	log	global
	mode	http
	option	httplog
	timeout connect 5000
	timeout client  50000
	timeout server  50000
frontend llm
	bind *:80,[::]:80
	bind *:443 ssl crt /etc/ssl/llm.pem
	acl models path_beg /v1
	use_backend gpus if models
	default_backend pages
backend gpus
	balance leastconn
	option httpchk GET /health
	default-server inter 2s port 9100
	server one gpu-0:8000 check
	server two "gpu-1:8000" check
backend pages
	server web www.example.org:80
"""


def trial(
    folder: Path, old: str, target: str, images: list[str], *words: str
) -> subprocess.CompletedProcess[str]:
    (folder / "old.conf").write_text(old)
    (folder / "fleet.yaml").write_text(yaml.safe_dump(chat(servers="gpu-[0-1]:8000")))
    return subprocess.run(
        [sys.executable, "-m", "lbgen", "trial", "fleet.yaml", "-t", target, "--runtime=docker", *images,
         "--beside=old.conf", *SHORT, *words],
        cwd=folder, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip


def rows(done: subprocess.CompletedProcess[str]) -> tuple[Any, Any]:
    """Return the old file's row and lbgen's."""
    old, ours = json.loads(done.stdout)["results"]
    assert (old["strategy"], old["file"], ours["file"]) == ("beside", "old.conf", None)
    return old, ours


def test_what_buffering_costs_is_seen(images: list[str], tmp_path: Path) -> None:
    done = trial(tmp_path, BUFFERED, "nginx", images, "--expect=ttft_p50(least_conn)<0.5*ttft_p50(beside)")
    assert done.returncode == 0, done.stderr
    old, ours = rows(done)
    assert old["ok"] == ours["ok"] == REQUESTS
    assert old["ttft_s"]["p50"] == pytest.approx(old["e2e_s"]["p50"], rel=0.1)  # in one lump, at the end
    assert sum(server["requests"] for server in old["servers"]) == REQUESTS


@pytest.mark.parametrize(("old", "target"), [(WHOLE, "nginx"), (DEBIAN, "haproxy")])
def test_whole_files_with_tls_logs_and_users_run(
    old: str, target: str, images: list[str], tmp_path: Path
) -> None:
    absent = trial(tmp_path, old, target, images)
    assert absent.returncode == 2
    assert "/etc/ssl/llm.pem (old.conf:" in absent.stderr
    assert "--stand-ins" in absent.stderr
    done = trial(tmp_path, old, target, images, "--stand-ins", "-v")
    assert done.returncode == 0, done.stderr
    assert [row["ok"] for row in rows(done)] == [REQUESTS, REQUESTS]
    assert "nothing is listening on" in done.stderr


@pytest.mark.parametrize(
    ("old", "target", "said"),
    [
        (BUFFERED.replace("least_conn;", "sticky cookie a;"), "nginx",
         'unknown directive "sticky" in old.conf:2'),
        (f"load_module modules/none.so;\nevents {{}}\nhttp {{\n{BUFFERED}}}\n", "nginx", "old.conf:1"),
        (DEBIAN.replace("balance leastconn", "balance least"), "haproxy", "[old.conf:22]"),
        (DEBIAN.replace("\toption\thttplog", "\terrorfile 400 /etc/none.http"), "haproxy", "[old.conf:11]"),
    ],
)  # fmt: skip
def test_what_the_program_refuses_has_the_files_own_lines(
    old: str, target: str, said: str, images: list[str], tmp_path: Path
) -> None:
    done = trial(tmp_path, old, target, images, "--stand-ins")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr


def test_both_programs_side_by_side(images: list[str], tmp_path: Path) -> None:
    done = trial(tmp_path, BUFFERED, "haproxy", images)
    assert done.returncode == 0, done.stderr
    assert [row["target"] for row in rows(done)] == ["nginx", "haproxy"]
