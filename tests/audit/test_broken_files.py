"""What the audit says of files that are broken, large, or full of credentials."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

import pytest

from lbgen.audit.secrets import without_secrets
from lbgen.cli.guard import run
from tests.audit.test_command import call

HERE = Path(__file__).parent
QUIET = HERE / "buffered-streams" / "quiet.conf"
QUIET_HAPROXY = HERE / "keys-in-file" / "quiet.cfg"


@pytest.fixture(autouse=True)
def _no_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.conf", QUIET.read_text().rstrip().removesuffix("}"), ""),
        ("a.conf", "}\n" + QUIET.read_text(), "1:1"),
        ("a.conf", QUIET.read_text() + "include a.conf;\n", ""),
        ("a.conf", QUIET.read_text() + "b { " * 200, ""),
        ("a.cfg", QUIET_HAPROXY.read_text() + "    server c '10.0.0.3:8000\n", "26:5"),
        ("a.cfg", "server x 10.0.0.1:8000\n" + QUIET_HAPROXY.read_text(), "1:1"),
    ],
)
def test_what_cannot_be_parsed_is_a_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, place: str
) -> None:
    (tmp_path / name).write_text(text)
    code, out, err = call(capsys, tmp_path / name, "--fail-on", "error", "--format", "json")
    found = [one for one in json.loads(out) if one["code"] == "configuration-syntax"]
    assert (code, err) == (1, "")
    assert found
    assert {one["severity"] for one in found} == {"error"}
    if place:
        assert f"{found[0]['line']}:{found[0]['column']}" == place
    code, out, err = call(capsys, tmp_path / name)
    assert "error[configuration-syntax]: " in out
    assert "nothing found" not in err


@pytest.mark.parametrize("text", ["function a() {\n  b();\n}}\n", "cache:\n  a: 'b\n", "events {}\n}\n"])
def test_what_is_no_balancers_has_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "a").write_text(text)
    code, out, _ = call(capsys, tmp_path / "a")
    assert (code, out) == (0, "")


@pytest.mark.parametrize("command", ["audit", "import"])
def test_thousands_of_upstreams(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    """Four times the upstreams take four times as long, not sixteen times."""
    taken = []
    for count in (400, 1_600) if command == "audit" else (150, 600):
        pools = "".join(f"upstream vllm{one} {{ server 10.0.0.1:{one + 8000}; }}\n" for one in range(count))
        servers = "".join(
            f"server {{ listen 80; server_name a{one}.x; location / {{ proxy_pass http://vllm{one}; }} }}\n"
            for one in range(count)
        )
        (tmp_path / "a.conf").write_text(pools + servers)
        run([command, str(tmp_path / "a.conf")])  # the first one imports modules
        began = process_time()
        run([command, str(tmp_path / "a.conf")])
        taken.append(process_time() - began)
        capsys.readouterr()
    assert taken[1] < 9 * taken[0], taken


def test_a_key_is_found_in_either_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    for condition, is_key in (
        ('req.hdr(Authorization) -m str "Bearer sk-abc"', True),
        ("http_auth_bearer -i sk-abc", True),
        ("req.hdr(x-api-key) -m str team-one", True),
        ("req.hdr(Authorization) -m reg ^Bearer\\ [a-z]+$", False),
        ("req.hdr(Authorization) -m found", False),
        ("req.hdr(Authorization) -m beg Bearer", False),
        ("req.hdr(Authorization) -f keys.lst", False),
        ("req.hdr(Host) -m str example.com", False),
    ):
        line = f"    http-request deny unless {{ {condition} }}\n"
        path.write_text(
            QUIET_HAPROXY.read_text().replace("    default_backend", f"{line}    default_backend")
        )
        found = json.loads(call(capsys, path, "--format", "json")[1])
        assert [one["code"] for one in found] == ["keys-in-file"] * is_key, condition
        if is_key:
            key = "sk-abc" if "sk-abc" in line else "team-one"
            assert found[0]["column"] == line.index(key) + 1
            text = call(capsys, path)[1]
            assert key not in text


@pytest.mark.parametrize(
    "line",
    [
        "proxy_pass http://user:PW@10.0.0.1:8000/?a=b&key=PW;",
        "proxy_pass http://PW@10.0.0.1:8000;",
        "rewrite ^ /x?api_key=PW&b=c;",
        "proxy_set_header X-Api-Key PW;",
        'proxy_set_header "X-Auth-Token" "a PW";',
        "    grpc_set_header Authorization 'Basic PW'; # why",
        'set $api_key "PW";',
        'if ($http_x_api_key != "PW") { return 401; }',
        "if ($arg_key = PW) {",
        "secure_link_secret PW;",
        "http-request set-header X-Api-Key PW if a",
        "http-request set-header X-Api-Key pa$PW",
        "http-request replace-header Authorization (.*) Basic\\ PW",
        "http-check send meth GET uri / hdr Cookie PW",
        'http-request deny unless { req.hdr(X-Token) -m str "PW" }',
        "acl a req.hdr(Authorization),lower -i PW",
        "acl a url_param(key) PW other",
        "user admin password $5$PW",
        "setenv ENGINE_KEY PW",
    ],
)
def test_credentials_are_blotted_out(line: str) -> None:
    shown = without_secrets(line)
    assert "PW" not in shown
    assert len(shown) == len(line)


@pytest.mark.parametrize(
    "line",
    [
        "proxy_set_header Authorization $http_authorization;",
        'proxy_set_header Authorization "Bearer $engine_key";',
        'proxy_set_header Authorization "";',
        "proxy_pass http://10.0.0.1:8000/v1?model=$model;",
        "ssl_certificate_key /etc/ssl/a.key;",
        "proxy_cache_key $host$uri;",
        "http-request set-header Authorization %[var(txn.key)] if { req.hdr(Authorization) -m found }",
        "http-request set-header X-Forwarded-Proto https",
        "server a 10.0.0.1:8000 check",
    ],
)
def test_what_is_no_credential_is_shown(line: str) -> None:
    assert without_secrets(line) == line


def test_lines_and_notes_show_no_credentials(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text(
        "server { listen 80; location /v1/ { proxy_set_header X-Api-Key PW;"
        " proxy_pass http://u:PW@vllm:8000/?key=PW; }"
        " location /g/ { proxy_pass http://u:PW@grafana:3000/; } }"
    )
    for form in ("text", "json", "github", "sarif"):
        code, out, err = call(capsys, path, "--format", form)
        assert code == 1
        assert "PW" not in out + err
        assert "grafana" in err


@pytest.mark.parametrize(
    "line",
    [
        'replace-header key "a' + '"b' * 20_000,
        "hdr(key" * 20_000,
        "set " + "key" * 50_000,
        "req.hdr(key) " + " " * 100_000 + "|",
        "://" * 50_000,
        "?key" * 50_000,
    ],
)
def test_a_long_line_is_soon_blotted(line: str) -> None:
    began = process_time()
    without_secrets(line)
    assert process_time() - began < 20


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_no_control_character_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    (tmp_path / "a.conf").write_text(
        "upstream vllm\x1b[2J { server 10.0.0.1:8000; server 10.0.0.2:8000; }\ninclude \x1b[2Jgone;\n"
        "server { location / { proxy_pass http://vllm\x1b[2J; } }\n"
    )
    code, out, err = call(capsys, tmp_path / "a.conf", "--format", form)
    assert code == 1
    assert "\x1b" not in out + err
