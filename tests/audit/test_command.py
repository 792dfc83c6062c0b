"""``lbgen audit``: formats, exit codes, secrets, versions, what is said at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lbgen.cli.guard import run

HERE = Path(__file__).parent
FIRES = HERE / "buffered-streams" / "fires.conf"
QUIET = HERE / "buffered-streams" / "quiet.conf"
INFO = HERE / "response-header-buffer" / "fires.conf"


@pytest.fixture(autouse=True)
def _no_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["audit", *map(str, arguments)])
    ended = capsys.readouterr()
    assert "Traceback" not in ended.err
    return code, ended.out, ended.err


def test_findings_are_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, FIRES)
    assert code == 1
    assert f"{FIRES}:26:13: error[buffered-streams]: " in out
    assert "  hint: instead: proxy_buffering off; (lbgen " in out
    assert err == "1 error\n"
    assert call(capsys, QUIET) == (0, "", "nothing found\n")


@pytest.mark.parametrize(
    ("file", "fail_on", "code"),
    [
        (FIRES, "error", 1),
        (FIRES, "info", 1),
        (INFO, "warning", 0),
        (INFO, "info", 1),
        (HERE / "body-buffer" / "fires.conf", "error", 0),
        (HERE / "body-buffer" / "fires.conf", "warning", 1),
    ],
)
def test_fail_on_decides_the_exit_code(
    capsys: pytest.CaptureFixture[str], file: Path, fail_on: str, code: int
) -> None:
    assert call(capsys, file, "--fail-on", fail_on)[0] == code


def test_json_has_the_shape_of_problems(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, INFO, "--format", "json")
    (one,) = json.loads(out)
    assert code == 0
    assert set(one) == {"code", "severity", "message", "file", "line", "column", "path", "hint"}
    assert (one["code"], one["severity"], one["file"]) == ("response-header-buffer", "info", str(INFO))
    assert json.loads(call(capsys, QUIET, "--format", "json")[1]) == []


def test_sarif_and_github_have_their_own_words_for_info(capsys: pytest.CaptureFixture[str]) -> None:
    sarif = json.loads(call(capsys, INFO, "--format", "sarif")[1])["runs"][0]
    assert [one["level"] for one in sarif["results"]] == ["note"]
    (rule,) = sarif["tool"]["driver"]["rules"]
    assert rule["fullDescription"]["text"].startswith("NGINX's default is 4 or 8 KB")
    assert call(capsys, INFO, "--format", "github")[1].startswith(f"::notice file={INFO},line=")


def test_keys_are_found_and_never_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "lb.cfg"
    path.write_text(
        "frontend llm\n bind :80\n acl ok req.hdr(authorization) -m str 'Bearer abcdef-team-key'\n"
        " http-request set-header X-Api-Key sk-live-123456789\n default_backend vllm\n"
        "backend vllm\n server a 10.0.0.1:8000\n"
        "listen stats\n bind :8404\n stats enable\n stats auth admin:hunter2\n"
    )
    for form in ("text", "json", "sarif", "github"):
        _, out, err = call(capsys, path, "--format", form)
        assert "keys-in-file" in out
        assert not any(key in out + err for key in ("abcdef-team-key", "sk-live-123456789", "hunter2"))
    path.chmod(0o600)
    assert "keys-in-file" not in call(capsys, path)[1]


def test_keys_of_a_map_are_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "nginx.conf"
    entries = "".join(f'        "Bearer team{number}" team-{number};\n' for number in range(12))
    table = f"http {{\n    map $http_authorization $team {{\n        default '';\n{entries}    }}\n"
    path.write_text(QUIET.read_text().replace("http {\n", table))
    code, out, _ = call(capsys, path)
    assert code == 1
    assert f"{path}:10:10: error[keys-in-file]" in out
    assert "(also line 11, 12, 13, 14, 15, 16, 17, 18 and 3 more)" in out
    assert "team0" not in out


def test_a_version_silences_and_names_holes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plain = (HERE / "connection-closed" / "fires.conf").read_text().replace("listen 8080", "listen 8443 ssl")
    path = tmp_path / "nginx.conf"
    path.write_text(plain.replace('            proxy_set_header Connection "";\n', ""))
    assert "connection-closed" in call(capsys, path)[1]
    new = call(capsys, path, "--target-version", "nginx=1.30.7")[1]
    assert new == ""
    old = call(capsys, path, "--target-version", "nginx=1.30.6")[1]
    assert "known-hole" in old
    assert "CVE-2026-118899" in old
    debian = call(capsys, path, "--target-version", "nginx=1.22.1-9+deb12u11")[1]
    assert "known-hole" not in debian
    assert "connection-closed" in debian


@pytest.mark.parametrize("said", ["nginx", "nginx=new", "envoy=1.2.3", "=1.2", "nginx=1.2.3.4"])
def test_bad_versions_are_wrong_usage(capsys: pytest.CaptureFixture[str], said: str) -> None:
    code, _, err = call(capsys, QUIET, "--target-version", said)
    assert code == 2
    assert "write it as nginx=1.26.3" in err


def test_what_cannot_be_audited_is_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("pools: {chat: {servers: [a:1]}}\n")
    assert call(capsys, tmp_path / "gone.conf")[0] == 2
    assert call(capsys, tmp_path)[0] == 2
    code, out, err = call(capsys, tmp_path / "fleet.yaml")
    assert (code, out) == (2, "")
    assert "neither an NGINX nor a HAProxy configuration" in err
    assert call(capsys, tmp_path / "fleet.yaml", QUIET)[0] == 0


def test_what_was_not_understood_is_said_at_the_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "nginx.conf"
    text = QUIET.read_text().replace("http {", "http {\n    include gone.conf;\n    js_import main.js;")
    path.write_text(text)
    code, out, err = call(capsys, path)
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        f"{path}:8:5: {tmp_path}/gone.conf cannot be read: No such file or directory",
        f"{path}:9:5: what the code of 'js_import' does is not looked at",
        "nothing found",
    ]


def test_a_comment_silences_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "nginx.conf"
    for comment, code in (("lbgen: ignore[buffered-streams]", 0), ("lbgen: ignore[body-limit]", 1)):
        path.write_text(FIRES.read_text().replace("proxy_buffering on;", f"proxy_buffering on; # {comment}"))
        assert call(capsys, path)[0] == code


def test_the_same_in_several_places_is_one_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "nginx.conf").write_text(
        QUIET.read_text().replace("location / {", "location /v1/ { include v1; }\n        location / {")
    )
    (tmp_path / "v1").write_text("proxy_pass http://vllm;\n")
    text = (tmp_path / "nginx.conf").read_text().replace("        proxy_buffering off;\n", "")
    (tmp_path / "nginx.conf").write_text(text)
    found = json.loads(call(capsys, tmp_path / "nginx.conf", "--format", "json")[1])
    (one,) = [one for one in found if one["code"] == "buffered-streams"]
    assert one["message"].endswith(f"(also line {tmp_path}/v1:1)")


BROKEN = {
    "open block": "upstream vllm {",
    "closing brace": "a;\n}",
    "no arguments": """
        upstream vllm { server ; zone; }
        server { location { proxy_pass; } location / { proxy_pass $x; } }
    """,
    "a variable of itself": "map $a $b { ~x http://$b; }\nserver { location /v1 { proxy_pass http://$b; } }",
    "a bare backend": """
        backend vllm
            balance
            server
            server a
            server-template x
            timeout
            timeout server
            retry-on
            http-check send
            option
            option httpchk
            stick on
            default-server
    """,
    "a bare frontend": """
        frontend vllm
            bind
            default_backend
            use_backend
            acl
            stats
            stats auth
            log-format
            monitor-uri
            http-request
            capture request header
    """,
    "bare settings": """
        global
            hard-stop-after
            tune.bufsize
        listen vllm
            bind :8000
            server a :11434 check inter
    """,
    "bare defaults": "defaults\n from\nbackend x from\n.if\n.else\n.endif\n.endif\n",
    "bare directives": """
        worker_processes; worker_shutdown_timeout;
        events { worker_connections; }
        http {
            access_log; log_format; error_log; set_real_ip_from; set; map; map {}
            upstream vllm { server a:8000 max_fails= fail_timeout=x; keepalive; hash; }
            server {
                listen; stub_status;
                location / {
                    proxy_pass http://vllm; proxy_read_timeout; proxy_next_upstream; error_page;
                    proxy_set_header; client_max_body_size;
                    large_client_header_buffers; return; proxy_http_version;
                }
            }
        }
    """,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_no_crash(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    (tmp_path / "x.conf").write_text(text)
    code, _, err = call(capsys, "--all", tmp_path / "x.conf")
    assert code in {0, 1}, err
