"""Files that others wrote, as a trial runs them: other addresses and files, all else to the letter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import crossplane
import pytest

from lbgen.checker.certificate import throwaway_bundle
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.trial.beside import Beside, beside
from lbgen.lab.trial.stage import mapping
from lbgen.lab.trial.stage.mapping import Standing
from lbgen.problems import LbgenError
from lbgen.targets.foreign import Moved
from lbgen.units import Address
from tests.trial.test_trial_command import FLEET, SHORT, Bench

HAPROXY = """\
global
    daemon
    chroot /var/lib/haproxy
    log /dev/log local0
    stats socket /run/haproxy/admin.sock mode 660
defaults
    mode http
    log global
    timeout connect 5s
    timeout client 50s
    timeout server 50s
frontend in  # a comment
    bind *:80,[::]:80 interface eth0
    http-request set-header X-A "a # b"
    default_backend gpus
backend gpus
    default-server inter 3s port 9000
    server a 'gpu-0:8000' check port 9001 weight 3
    server b GPU-1:8000 addr 10.9.9.9 check
backend other
    server x api.example.org:443 ssl verify none
"""
NGINX = """\
daemon on;
user www-data;
worker_processes 3;
error_log /var/log/nginx/error.log warn;
events { worker_connections 77; }
http {
    log_format tiny '$remote_addr "$request"';
    access_log /var/log/nginx/access.log tiny;
    map $http_x $which { default gpus; other "10.9.9.9:99"; }
    upstream gpus { server gpu-0:8000 weight=3 max_fails=3; server gpu-1:8000 backup; }
    server {
        listen 80;
        listen [::]:80 ipv6only=on;
        location ~ \\.php$ { return 404 "no \\"such\\" thing\\n"; }
        location /auth { proxy_pass http://auth.example.org:9/x; }
        location / { proxy_pass http://gpus/v1; resolver 9.9.9.9 valid=5s; }
        location /which { proxy_pass http://$which; }
    }
    server { listen 8081; server_name b.example.org; root /srv; }
}
"""


def read(
    tmp_path: Path, text: str, fleet: str = FLEET, *, stand_ins: bool = False
) -> tuple[Beside, list[str]]:
    (tmp_path / "old.conf").write_text(text)
    loaded = load([Source("fleet.yaml", fleet)], environ={}).fleet
    assert loaded is not None
    said: list[str] = []
    way = mapping.way_to(loaded, loaded.pools[0])
    found = beside(str(tmp_path / "old.conf"), loaded.pools[0], way, said.append, stand_ins=stand_ins)
    return found, [one.replace(f"{tmp_path}/", "") for one in said]


def moved(found: Beside) -> Moved:
    servers = {f"gpu-{n}": Standing(Address("127.0.0.1", 4000 + n), Address("127.0.0.1", 1)) for n in (0, 1)}
    binds = {bind: Address("127.0.0.1", 5000 + n) for n, bind in enumerate(found.foreign.binds)}
    return found.foreign.moved(found.elsewhere(servers, binds, "/trial", "/trial/mock.pem"))


def test_of_haproxy_only_lines_with_addresses_change(tmp_path: Path) -> None:
    found, said = read(tmp_path, HAPROXY)
    was, now = HAPROXY.split("\n"), moved(found).text.split("\n")
    changed = {number: now[number - 1] for number in range(1, len(was)) if was[number - 1] != now[number - 1]}
    assert changed == {
        2: "",
        3: "",
        4: "    log stderr local0",
        5: "",
        13: "    bind 127.0.0.1:5000,127.0.0.1:5001",
        17: "    default-server inter 3s",
        18: "    server a 127.0.0.1:4000 check weight 3",
        19: "    server b 127.0.0.1:4001 check",
        21: "    server x 127.0.0.1:1 ssl verify none",
    }
    assert said == [
        (
            "trial: old.conf:21:5: nothing is listening on api.example.org:443, "
            "which is not a server of the pool chat"
        )
    ]


def test_of_nginx_the_same_is_read_but_for_addresses(tmp_path: Path) -> None:
    found, _ = read(tmp_path, NGINX)
    there = moved(found)
    place = tmp_path / "nginx.conf"
    place.write_text(there.text)

    def told(path: Path) -> list[str]:
        parsed = crossplane.parse(str(path), check_ctx=False, check_args=False)["config"][0]["parsed"]
        return [" ".join([one["directive"], *one["args"]]) for one in _all(parsed)]

    was, now = told(tmp_path / "old.conf"), told(place)
    assert [one for one in was if one not in now] == [
        "daemon on",
        "user www-data",
        "error_log /var/log/nginx/error.log warn",
        "access_log /var/log/nginx/access.log tiny",
        "other 10.9.9.9:99",
        "server gpu-0:8000 weight=3 max_fails=3",
        "server gpu-1:8000 backup",
        "listen 80",
        "listen [::]:80 ipv6only=on",
        "proxy_pass http://auth.example.org:9/x",
        "resolver 9.9.9.9 valid=5s",
        "listen 8081",
    ]
    assert [one for one in now if one not in was and "temp_path" not in one] == [
        "error_log stderr warn",
        "access_log /trial/access_log-1 tiny",
        "other 127.0.0.1:1",
        "server 127.0.0.1:4000 weight=3 max_fails=3",
        "server 127.0.0.1:4001 backup",
        "listen 127.0.0.1:5000",
        "listen 127.0.0.1:5001",
        "proxy_pass http://127.0.0.1:1/x",
        "resolver 127.0.0.1:1 valid=5s",
        "listen 127.0.0.1:5002",
    ]


def _all(block: list[dict[str, object]]) -> list[dict[str, object]]:
    return [one for outer in block for one in (outer, *_all(outer.get("block", [])))]  # type: ignore[arg-type]


def test_places_are_those_of_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "part.conf").write_text("server {\n listen 80;\n location / { proxy_pass http://gpus; }\n}\n")
    text = "http {\n\n  upstream gpus { server gpu-0:8000; server gpu-1:8000; }\n  include part.conf;\n}\n"
    found, _ = read(tmp_path, text)
    there = moved(found)
    (at,) = [number for number, line in enumerate(there.text.split("\n"), 1) if "proxy_pass" in line]
    words = f'[emerg] unknown "x" in /trial/nginx.conf:{at}'
    assert there.located(words, "nginx.conf") == f'[emerg] unknown "x" in {tmp_path}/part.conf:3'


def test_a_part_stands_in_an_http_block_and_it_is_said(tmp_path: Path) -> None:
    servers = "upstream g { server gpu-0:8000; server gpu-1:8000; }\n"
    text = f"{servers}server {{ location / {{ proxy_pass http://g; }} }}\n"
    found, said = read(tmp_path, text)
    assert "listen 127.0.0.1:5000;" in moved(found).text
    assert "is a part: it is put into an http block" in said[0]


def test_servers_with_other_addresses_are_taken_in_order_and_it_is_said(tmp_path: Path) -> None:
    found, said = read(tmp_path, HAPROXY.replace("gpu-0", "10.0.0.1").replace("GPU-1", "10.0.0.2"))
    assert found.servers == {"10.0.0.1:8000": "gpu-0", "10.0.0.2:8000": "gpu-1"}
    assert "are assigned in order: 10.0.0.1:8000 as gpu-0, 10.0.0.2:8000 as gpu-1" in said[0]


def test_requests_enter_where_they_are_led_to_the_pool(tmp_path: Path) -> None:
    servers = "upstream g { server gpu-0:8000; server gpu-1:8000; }\n"
    web = "server { listen 80 default_server; server_name www.example.org; root /srv; }\n"
    ours = "server { listen 80; server_name ~^x *.llm.example.org; location / { proxy_pass http://g; } }\n"
    found, _ = read(tmp_path, servers + web + ours)
    assert found.way.headers["Host"] == "trial.llm.example.org"
    assert found.entrance.location.line == 3


def test_certificates_that_are_not_here(tmp_path: Path) -> None:
    text = NGINX.replace(
        "listen 80;", "listen 443 ssl;\nssl_certificate a.pem; ssl_certificate_key a.key;\nssl_dhparam d;"
    )
    with pytest.raises(LbgenError, match=r"missing .*: a\.pem \(\S+old\.conf:13:1\), a\.key .*--stand-ins"):
        read(tmp_path, text)
    found, said = read(tmp_path, text, stand_ins=True)
    assert "ssl_certificate_key /trial/mock.pem;" in moved(found).text
    assert "ssl_dhparam" not in moved(found).text
    assert any("generated certificates for a.pem" in one for one in said)
    for name in ("a.pem", "a.key", "d"):
        (tmp_path / name).write_text(throwaway_bundle())
    assert f"ssl_certificate_key {tmp_path}/a.key;" in moved(read(tmp_path, text)[0]).text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http {\n include gone.conf;\n}\n", "old.conf:2:2: {}/gone.conf cannot be read: No such file"),
        ("http {\n server {\n", "old.conf:2:1: unexpected end of file"),
        ("location / { proxy_pass http://a; }\n", "old.conf:1:1: a part of a server block"),
        (
            "server {\n auth_basic_user_file gone.htpasswd;\n proxy_pass http://gpu-0:8000; }\n",
            "old.conf:2:2: gone.htpasswd is missing",
        ),
        ("Hello\n", "neither an NGINX nor a HAProxy configuration"),
        ("server { root /srv; }\n", "none of its servers is one of the pool chat: it calls none"),
        (NGINX.replace("gpu-1:8000", "10.0.0.9:1"), "old.conf:10:61: 10.0.0.9:1 is no server of the pool"),
        (NGINX.replace("http://gpus", "https://gpus"), "gpu-0:8000 is called with TLS, by the fleet without"),
        (NGINX.replace("listen 80;", "listen 80 proxy_protocol;").replace("listen [::]:80 ipv6only=on;", ""),
         "old.conf:12:9: it expects the PROXY protocol"),
        (HAPROXY.replace("weight 3", "send-proxy"), "old.conf:18:5: server a gpu-0:8000: it cannot be tried"),
        (HAPROXY + "    server-template g 1-3 g:80\n", "old.conf:22:5: server-template g 1-3: it cannot be"),
        (HAPROXY + "    http-request do-resolve(txn.a,dns) hdr(host)\n", "decides by itself which address"),
        (HAPROXY + "    option external-check\n", "runs a program of its own"),
        (HAPROXY.replace("8000' check", "8000"), "old.conf:18:5: a ' has no"),
    ],
)  # fmt: skip
def test_what_cannot_be_tried_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LbgenError) as caught:
        read(tmp_path, text)
    assert said.format(tmp_path) in str(caught.value)


@pytest.mark.slow
def test_both_rows_are_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "old.cfg").write_text(HAPROXY.partition("backend other")[0])
    words = ("--beside=old.cfg", *SHORT, "--report=r.html")
    done = bench.run(*words, "-v", "--expect=errors(beside)<1", "--expect=p99(round_robin)<0.001*p99(beside)")
    assert done.returncode == 1, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if " measured  " in f" {line}"]
    assert [row[:-6] for row in rows] == [
        ["old.cfg", "haproxy", "measured", "40", "0", rows[0][5]],
        ["measured", "40", "0", rows[1][3]],
    ]
    shares = re.search(r"old.cfg on haproxy: gpu-0 (\d+), gpu-1 (\d+)\n", done.stdout)
    assert shares is not None
    assert sum(map(int, shares.groups())) == 40
    assert (
        "old.cfg:18:5: server a 'gpu-0:8000' check port 9001 weight 3 -> server a 127.0.0.1:" in done.stderr
    )
    assert "p99(round_robin)<0.001*p99(beside): does not hold for round_robin" in done.stderr
    assert "errors(beside)" not in done.stderr
    assert "old.cfg on haproxy" in (tmp_path / "r.html").read_text()
    done = bench.run(*words, "--format=json")
    first, second = json.loads(done.stdout)["results"]
    assert (first["strategy"], first["file"], first["predicted"], first["ok"]) == (
        "beside",
        "old.cfg",
        None,
        40,
    )
    assert (second["strategy"], second["file"], second["ok"]) == ("round_robin", None, 40)
    assert bench.left() == []


def test_a_refused_old_file_is_told_in_the_programs_own_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "old.cfg").write_text(HAPROXY.replace("mode http", "bogus"))
    done = bench.run("--beside=old.cfg", *SHORT)
    assert done.returncode == 2
    assert "haproxy does not run with old.cfg; it says:" in done.stderr
    assert "parsing [old.cfg:9] : unknown keyword 'bogus'" in done.stderr
    assert bench.left() == []


def test_a_file_beside_is_named_where_an_expectation_is_about_it(tmp_path: Path) -> None:
    done = Bench(tmp_path).run(*SHORT, "--expect=p99(beside)<1")
    assert done.returncode == 2
    assert "is about a file beside: name it with --beside" in done.stderr
