from __future__ import annotations

import json
import socket

import pytest

from tests.cli.conftest import SMALLEST

NGINX = """
case "$1" in
    -v) echo "nginx version: nginx/1.22.1" >&2 ;;
    -V) echo "configure arguments: --without-http_scgi_module" >&2 ;;
    *) {answer} ;;
esac
"""
GOOD = 'echo "nginx: configuration file test is successful" >&2'
# What NGINX 1.22.1 prints; $4 is the configuration after -t -e stderr -c.
REFUSES = 'echo "nginx: [emerg] unknown directive \\"boo\\" in $5:7" >&2; exit 1'
WARNS = 'echo "nginx: [warn] the \\"listen\\" is odd in $5:7" >&2'
HAPROXY = """
case "$1" in
    -v) echo "HAProxy version 2.6.12-1+deb12u1 2023/12/16 - https://haproxy.org/" ;;
    *) {answer} ;;
esac
"""


@pytest.fixture
def nginx(fake_program):
    return lambda answer: f"nginx={fake_program('nginx', NGINX.format(answer=answer))}"


def test_a_target_that_passes(lbgen, smallest, nginx):
    ended = lbgen("check", smallest, "-t", "nginx", "--binary", nginx(GOOD))
    assert (ended.code, ended.out) == (0, "nginx 1.22.1: ok\n")
    assert "stand-ins for host names" in ended.err
    assert "gpu-0, gpu-1" in ended.err


def test_a_refusal_points_into_the_rendered_file(lbgen, smallest, nginx):
    ended = lbgen("check", smallest, "-t", "nginx", "--binary", nginx(REFUSES))
    assert ended.code == 1
    assert "nginx/nginx.conf:7:" in ended.err
    assert 'unknown directive "boo"' in ended.err
    assert ended.out == "nginx 1.22.1: refused\n"
    assert "/tmp" not in ended.err.replace(str(smallest), "")


def test_warnings_fail_only_when_strict(lbgen, smallest, nginx):
    arguments = ["check", smallest, "-t", "nginx", "--binary", nginx(WARNS)]
    assert lbgen(*arguments).code == 0
    ended = lbgen(*arguments, "--strict")
    assert ended.code == 1
    assert "is odd" in ended.err


def test_rules_warnings_fail_only_when_strict(lbgen, smallest):
    assert lbgen("check", smallest, "--binary", "none").code == 0
    assert lbgen("check", smallest, "--binary", "none", "--strict").code == 1


def test_haproxy(lbgen, smallest, fake_program):
    answer = 'echo "[ALERT]    (12) : config : parsing [$3:4] : unknown keyword" >&2; exit 1'
    program = fake_program("haproxy", HAPROXY.format(answer=answer))
    ended = lbgen("check", smallest, "-t", "haproxy", "--binary", f"haproxy={program}")
    assert ended.code == 1
    assert "haproxy/haproxy.cfg:4:" in ended.err
    assert ended.out == "haproxy 2.6.12: refused\n"


def test_a_program_that_crashes(lbgen, smallest, fake_program):
    program = fake_program("haproxy", HAPROXY.format(answer="kill -SEGV $$"))
    ended = lbgen("check", smallest, "-t", "haproxy", "--binary", f"haproxy={program}")
    assert ended.code == 1
    assert "signal 11" in ended.err


def test_a_version_that_differs_is_named_and_its_warnings_are_not_ours(lbgen, smallest, nginx):
    newer = nginx(WARNS)
    ended = lbgen("check", smallest, "-t", "nginx", "--target-version", "1.26", "--binary", newer)
    assert ended.out == "nginx 1.22.1: ok, but the fleet is for 1.26\n"
    assert "nginx-says" not in ended.err


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("lbgen.runtimes.process._SYSTEM_FOLDERS", ())
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-docker.sock")


@pytest.mark.usefixtures("nothing_installed")
def test_not_checked_is_said(lbgen, smallest):
    ended = lbgen("check", smallest)
    assert ended.code == 0
    assert ended.out == "not checked by nginx: not found\nnot checked by haproxy: not found\n"


@pytest.mark.usefixtures("nothing_installed")
def test_a_required_program_has_to_be_there(lbgen, smallest):
    assert lbgen("check", smallest, "--binary", "required").code == 2


def test_binary_none(lbgen, smallest):
    ended = lbgen("check", smallest, "-t", "nginx", "--binary", "none")
    assert (ended.code, ended.out) == (0, "not checked by nginx: --binary none\n")


@pytest.mark.parametrize("place", ["/nonexistent/nginx", "/bin/true", "docker://"])
def test_a_named_program_has_to_work(lbgen, smallest, place):
    ended = lbgen("check", smallest, "-t", "nginx", "--binary", f"nginx={place}")
    assert (ended.code, ended.out) == (2, "")
    assert "--binary" in ended.err


def test_resolve_leaves_the_names(lbgen, smallest, nginx):
    ended = lbgen("check", smallest, "-t", "nginx", "--resolve", "--binary", nginx('grep -q gpu-1 "$5"'))
    assert ended.code == 0
    assert "stand-ins" not in ended.err
    assert lbgen("check", smallest, "-t", "nginx", "--binary", nginx('grep -q gpu-1:8000 "$5"')).code == 1


def test_resolve_names_servers_that_are_several(lbgen, nginx, monkeypatch, tmp_path):
    def found(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        addresses = {"vllm": ["10.0.0.2", "10.0.0.3", "10.0.0.4"], "one": ["10.0.0.5"]}.get(host)
        if addresses is None:
            raise OSError
        return [(socket.AF_INET, 1, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: {chat: {servers: ['one:8000', 'none:8000', 'vllm:8000', '10.0.0.9:80']}}\n"
        "listeners: {l: {bind: '127.0.0.1:8080'}}\n")  # fmt: skip
    ended = lbgen("check", fleet, "-t", "nginx", "--resolve", "--binary", nginx(GOOD))
    assert ended.code == 0
    assert ended.err.count("several-addresses") == 1
    assert "fleet.yaml:1:51: warning[several-addresses]: 'vllm' has 3 addresses" in ended.err
    assert "discover: {dns: vllm, port: 8000}" in ended.err
    assert "several-addresses" not in lbgen("check", fleet, "-t", "nginx", "--binary", nginx(GOOD)).err


def test_nothing_is_left_behind(lbgen, smallest, nginx, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = sorted(tmp_path.iterdir())
    program = nginx(GOOD)
    lbgen("check", smallest, "-t", "nginx", "--binary", program)
    lbgen("check", smallest, "-t", "nginx", "--binary", nginx(REFUSES))
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "bin"])


def test_json(lbgen, tmp_path):
    (tmp_path / "bad.yaml").write_text("pools:\n  chat:\n    servers:\n      - {address: 'a:1', wieght: 3}\n")
    ended = lbgen("check", "bad.yaml", "--binary", "none", "--format", "json")
    assert ended.code == 1
    (problem,) = [entry for entry in json.loads(ended.out) if entry["severity"] == "error"]
    assert problem["code"] == "unknown-key"
    assert (problem["file"], problem["line"]) == ("bad.yaml", 4)
    assert problem["path"].startswith("pools.chat.servers[0]")
    assert "weight" in problem["message"] + problem["hint"]


def test_json_of_a_good_fleet_is_a_list(lbgen, smallest):
    ended = lbgen("check", smallest, "--binary", "none", "--format", "json")
    assert {entry["code"] for entry in json.loads(ended.out)} >= {"open-listener"}
    assert "not checked" in ended.err


def test_github_is_chosen_inside_an_action(lbgen, smallest, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ended = lbgen("check", smallest, "--binary", "none")
    assert ended.out.startswith("::warning file=")
    assert "::" not in lbgen("check", smallest, "--binary", "none", "--format", "text").err


def test_sarif(lbgen, smallest):
    ended = lbgen("check", smallest, "--binary", "none", "--format", "sarif")
    (run,) = json.loads(ended.out)["runs"]
    assert run["results"]


def test_secrets_do_not_show_in_what_a_checker_says(lbgen, tmp_path, nginx, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-very-secret")
    text = SMALLEST + (
        'listeners: {public: {bind: "127.0.0.1:8080", auth: {clients: all}}}\n'
        'clients: {team: {key: "env:TEAM_KEY"}}\n'
    )
    (tmp_path / "keys.yaml").write_text(text, encoding="utf-8")
    words = '$(cat $(dirname "$5")/secrets/* | tr -d "\\n")'
    answer = f'echo "nginx: [emerg] bad words: {words} in $5:7" >&2; exit 1'
    ended = lbgen("check", "keys.yaml", "-t", "nginx", "--binary", nginx(answer))
    assert ended.code == 1
    assert "bad words" in ended.err
    assert "very" not in ended.err


PREFIX = """
pools: {chat: {engine: vllm, strategy: STRATEGY, servers: "gpu-[0-1]:8000"}}
listeners: {edge: {bind: "*:8080", inspect: {body: 1MiB}, routes: [{pool: chat}]}}
targets: {haproxy: {max_connections: 1024}}
"""


@pytest.mark.parametrize(("strategy", "said"), [("prefix", True), ("least_conn", False)])
def test_the_memory_for_looking_at_bodies_is_said(lbgen, tmp_path, strategy, said):
    (tmp_path / "bodies.yaml").write_text(PREFIX.replace("STRATEGY", strategy), encoding="utf-8")
    ended = lbgen("check", "bodies.yaml", "--binary", "none")
    assert ended.code == 0
    # 1 MiB for the body and 136 KiB for headers, twice for each of 1,024 connections.
    assert ("2.3 GiB of memory" in ended.err) is said


def test_each_file_may_be_a_fleet_of_its_own(lbgen, smallest, tmp_path):
    (tmp_path / "part.yaml").write_text("pools: {chat: {strategy: round_robin}}\n", encoding="utf-8")
    words = ["check", smallest, "part.yaml", "--binary", "none", "-t", "nginx"]
    assert lbgen(*words).code == 0
    ended = lbgen(*words, "--each", "--format", "json")
    assert ended.code == 1
    assert {problem["file"] for problem in json.loads(ended.out) if problem["severity"] == "error"} == {
        "part.yaml"
    }


OLD_NGINX = """case "$1" in
-v) echo "nginx version: nginx/1.30.6" ;;
-V) echo "nginx version: nginx/1.30.6" ;;
esac"""


def test_a_program_with_a_known_vulnerability(lbgen, tmp_path, fake_program):
    program = f"nginx={fake_program('nginx', OLD_NGINX)}"
    text = (
        "pools: {chat: {servers: [gpu-0:8000]}}\n"
        "listeners: {l: {bind: 127.0.0.1:443, tls: {bundle: both.pem}}}\n"
        "targets:\n  nginx: {version: '1.30'}\n"
    )
    fleet = tmp_path / "f.yaml"
    fleet.write_text(text)
    ended = lbgen("check", fleet, "--binary", program)
    assert ended.code == 0, ended.err
    assert "f.yaml:4:" in ended.err
    assert "warning[known-vulnerability]: nginx 1.30.6 has known vulnerabilities: CVE-" in ended.err
    assert lbgen("check", fleet, "--strict", "--binary", program).code == 1
    fleet.write_text(text.replace("'1.30'}", "'1.30'} # lbgen: ignore[known-vulnerability]"))
    ended = lbgen("check", fleet, "--strict", "--binary", program)
    assert ended.code == 0, ended.err
    assert "known-vulnerability" not in ended.err
    assert lbgen("check", fleet, "--strict", "--binary", "none").code == 0, "the comment is no mistake there"


def test_without_programs_the_fleet_is_said_to_be_valid(lbgen, smallest):
    ended = lbgen("check", smallest, "--binary", "none")
    assert "the fleet is valid; the rendered files were not tried on the real nginx and haproxy" in ended.err
    smallest.write_text("pools: {}\n")
    assert "valid" not in lbgen("check", smallest, "--binary", "none").err


def test_each_says_whose_line_it_is(lbgen, tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(SMALLEST)
    ended = lbgen("check", "--each", "a.yaml", "b.yaml", "-t", "nginx", "--binary", "none")
    assert ended.out.splitlines() == [
        "a.yaml: not checked by nginx: --binary none",
        "b.yaml: not checked by nginx: --binary none",
    ]


def test_a_misspelt_key_does_not_mask_what_is_no_secret(lbgen, tmp_path):
    (tmp_path / "f.yaml").write_text(
        "pools: {chat: {server: [gpu-0:8000], apikey: sk-live-1}}\nclient: {a: {key: hunter2222}}\n"
        "listenrs: {l: {auth: {upstream: {set: hunter3333}}}}\n"
    )
    ended = lbgen("check", "f.yaml", "--binary", "none")
    assert "server: [gpu-0:8000]" in ended.err
    assert not any(secret in ended.err for secret in ("sk-live", "hunter"))


def test_the_smallest_fleet_is_warned_of_in_one_line(lbgen, smallest):
    ended = lbgen("check", smallest, "--binary", "none")
    warned = [line for line in ended.err.splitlines() if "[" in line]
    assert len(warned) == 1
    assert "open-listener" in warned[0]
    assert "a bind to 127.0.0.1" in warned[0]
    assert "^" not in ended.err
