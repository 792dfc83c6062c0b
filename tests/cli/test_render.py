from __future__ import annotations

import json

import pytest

from tests.cli.conftest import SMALLEST

WITH_KEY = """
pools: {chat: {servers: [gpu-0:8000]}}
listeners: {public: {bind: "127.0.0.1:8080", auth: {clients: all}}}
clients: {team: {key: "env:TEAM_KEY"}}
targets: {nginx: {version: "1.22"}}
"""


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("target", "word"), [("nginx", "upstream "), ("haproxy", "backend ")])
def test_one_target_goes_to_standard_output(lbgen, smallest, target, word):
    ended = lbgen("render", smallest, "-t", target)
    assert ended.code == 0
    assert word in ended.out
    assert "open-listener" in ended.err
    assert ended.out.endswith("\n")
    assert lbgen("render", smallest, "-t", target).out == ended.out
    assert lbgen("render", smallest, "-t", target, "-o", "-").out == ended.out


def test_several_targets_need_a_folder(lbgen, smallest, tmp_path):
    ended = lbgen("render", smallest)
    assert (ended.code, ended.out) == (2, "")
    assert "use -o" in ended.err
    assert tree(tmp_path) == ["fleet.yaml"]


def test_side_files_need_a_folder(lbgen, tmp_path):
    (tmp_path / "keys.yaml").write_text(WITH_KEY, encoding="utf-8")
    ended = lbgen("render", "keys.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert "use -o" in ended.err


def test_a_folder_gets_every_target_and_a_list(lbgen, smallest, tmp_path):
    ended = lbgen("render", smallest, "-o", "out")
    assert (ended.code, ended.out) == (0, "")
    assert {"nginx/nginx.conf", "haproxy/haproxy.cfg"} <= set(tree(tmp_path / "out"))
    assert "out/nginx/nginx.conf" in ended.err


def test_what_is_written_is_what_is_printed(lbgen, smallest, tmp_path):
    lbgen("render", smallest, "-o", "out")
    printed = lbgen("render", smallest, "-t", "haproxy").out
    assert (tmp_path / "out/haproxy/haproxy.cfg").read_text() == printed


def test_check_tells_whether_files_differ_and_writes_nothing(lbgen, smallest, tmp_path):
    assert lbgen("render", smallest, "-o", "out", "--check").code == 1
    assert not (tmp_path / "out").exists()
    lbgen("render", smallest, "-o", "out")
    ended = lbgen("render", smallest, "-o", "out", "--check")
    assert ended.code == 0
    assert "no differences in out" in ended.err
    path = tmp_path / "out/nginx/nginx.conf"
    path.write_text(path.read_text() + "# by hand\n")
    ended = lbgen("render", smallest, "-o", "out", "--check")
    assert ended.code == 1
    assert f"differs   {path.relative_to(tmp_path)}" in ended.err
    assert "by hand" in path.read_text()


def test_diff_shows_what_would_change(lbgen, smallest, tmp_path):
    lbgen("render", smallest, "-o", "out")
    assert lbgen("render", smallest, "-o", "out", "--diff")[:2] == (0, "")
    smallest.write_text(SMALLEST.replace("gpu-1", "gpu-7"), encoding="utf-8")
    ended = lbgen("render", smallest, "-o", "out", "--diff")
    assert ended.code == 0
    assert any(line.startswith("+") and "gpu-7" in line for line in ended.out.splitlines())
    assert lbgen("render", smallest, "-o", "out", "--diff", "--check").code == 1
    assert "gpu-7" not in (tmp_path / "out/nginx/nginx.conf").read_text()


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_comparing_needs_a_folder(lbgen, smallest, option):
    ended = lbgen("render", smallest, option)
    assert ended.code == 2
    assert "-o DIR" in ended.err


def test_secrets_are_needed_to_write_and_never_shown(lbgen, tmp_path, monkeypatch):
    (tmp_path / "keys.yaml").write_text(WITH_KEY, encoding="utf-8")
    monkeypatch.delenv("TEAM_KEY", raising=False)
    ended = lbgen("render", "keys.yaml", "-o", "out")
    assert ended.code == 2
    assert "TEAM_KEY" in ended.err
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("TEAM_KEY", "sk-very-secret")
    assert lbgen("render", "keys.yaml", "-o", "out").code == 0
    secret = [path for path in (tmp_path / "out").rglob("secrets/*") if path.is_file()]
    assert secret
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
    monkeypatch.setenv("TEAM_KEY", "sk-another-secret")
    ended = lbgen("render", "keys.yaml", "-o", "out", "--diff", "--check")
    assert ended.code == 1
    assert "sk-" not in ended.out + ended.err
    assert "(holds secrets: not shown)" in ended.out
    monkeypatch.setenv("TEAM_KEY", "sk-very-secret")
    ended = lbgen("render", "keys.yaml", "-o", "out", "--diff", "--set", "pools.chat.timeouts.idle=20m")
    assert "changed (its first line alone, which names the fleet's digest)" in ended.out
    assert "not shown" not in ended.out


def test_without_its_secrets_a_check_compares_the_other_files(lbgen, tmp_path, monkeypatch):
    (tmp_path / "keys.yaml").write_text(WITH_KEY, encoding="utf-8")
    monkeypatch.setenv("TEAM_KEY", "sk-very-secret")
    lbgen("render", "keys.yaml", "-o", "out")
    monkeypatch.delenv("TEAM_KEY")
    ended = lbgen("render", "keys.yaml", "-o", "out", "--check")
    assert ended.code == 0
    assert "env:TEAM_KEY" in ended.err


def test_files_of_others_are_left_alone(lbgen, smallest, tmp_path):
    path = tmp_path / "out/haproxy/haproxy.cfg"
    path.parent.mkdir(parents=True)
    path.write_text("global\n")
    ended = lbgen("render", smallest, "-o", "out")
    assert ended.code == 2
    assert "--force" in ended.err
    assert tree(tmp_path / "out") == ["haproxy/haproxy.cfg"]
    assert path.read_text() == "global\n"
    assert lbgen("render", smallest, "-o", "out", "--force").code == 0
    assert "backend" in path.read_text()


def test_own_stale_files_go(lbgen, tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-very-secret")
    (tmp_path / "keys.yaml").write_text(WITH_KEY, encoding="utf-8")
    lbgen("render", "keys.yaml", "-o", "out")
    before = tree(tmp_path / "out")
    text = WITH_KEY.replace("{clients: all}", "none").replace('clients: {team: {key: "env:TEAM_KEY"}}', "")
    (tmp_path / "keys.yaml").write_text(text, encoding="utf-8")
    ended = lbgen("render", "keys.yaml", "-o", "out")
    assert ended.code == 0
    assert len(tree(tmp_path / "out")) < len(before)
    assert "removed" in ended.err


@pytest.mark.parametrize("part", ["http", "upstreams"])
@pytest.mark.parametrize(("target", "whole"), [("nginx", "events {"), ("haproxy", "\nglobal\n")])
def test_parts_are_what_can_be_included(lbgen, smallest, part, target, whole):
    ended = lbgen("render", smallest, "-t", target, "--part", part)
    assert ended.code == 0
    assert "gpu-1" in ended.out
    assert whole not in ended.out
    assert whole in lbgen("render", smallest, "-t", target).out


def test_set_comes_last(lbgen, smallest):
    assert "least_conn;" in lbgen("render", smallest, "-t", "nginx").out
    ended = lbgen("render", smallest, "-t", "nginx", "--set", "pools.chat.strategy=round_robin")
    assert ended.code == 0
    assert "least_conn;" not in ended.out


def test_overlays_are_merged_from_left_to_right(lbgen, smallest, tmp_path):
    (tmp_path / "prod.yaml").write_text("pools: {chat: {servers: [prod-0:9000]}}\n", encoding="utf-8")
    ended = lbgen("render", smallest, "prod.yaml", "-t", "haproxy")
    assert ended.code == 0
    assert "prod-0:9000" in ended.out
    assert "gpu-0" not in ended.out


def test_standard_input(lbgen):
    ended = lbgen("render", "-", "-t", "nginx", stdin=SMALLEST)
    assert ended.code == 0
    assert "gpu-1" in ended.out


@pytest.mark.parametrize("text", ["1.26", "nginx=1.26"])
def test_target_version(lbgen, smallest, text):
    newer = lbgen("render", smallest, "-t", "nginx", "--target-version", text)
    assert newer.code == 0
    assert "http2 on;" in newer.out
    assert "http2 on;" not in lbgen("render", smallest, "-t", "nginx").out


@pytest.mark.parametrize("text", ["latest", "nginx=", "apache=2.4", "0.1"])
def test_a_wrong_target_version(lbgen, smallest, text):
    ended = lbgen("render", smallest, "-t", "nginx", "--target-version", text)
    assert ended.code in {1, 2}
    assert ended.out == ""
    assert "ersion" in ended.err


def test_a_target_version_needs_to_know_its_target(lbgen, smallest):
    assert lbgen("render", smallest, "-o", "out", "--target-version", "1.26").code == 2


def test_templates_come_before_the_built_in_ones(lbgen, smallest, tmp_path):
    folder = tmp_path / "mine/nginx"
    folder.mkdir(parents=True)
    (folder / "nginx.conf.j2").write_text(
        '{% extends "builtin/nginx/nginx.conf.j2" %}{% block events %}events { use epoll; }{% endblock %}'
    )
    ended = lbgen("render", smallest, "-t", "nginx", "--templates", "mine")
    assert ended.code == 0
    assert "use epoll" in ended.out


@pytest.mark.parametrize("text", ["{% if %}", "{{ nothing.here }}", "{{ 1 / 0 }}", "{% include 'gone.j2' %}"])
def test_a_broken_template_is_named(lbgen, smallest, tmp_path, text):
    folder = tmp_path / "mine/nginx"
    folder.mkdir(parents=True)
    (folder / "nginx.conf.j2").write_text(text)
    ended = lbgen("render", smallest, "-t", "nginx", "--templates", "mine")
    assert (ended.code, ended.out) == (2, "")
    assert "j2" in ended.err


def test_templates_have_to_be_a_folder(lbgen, smallest):
    assert lbgen("render", smallest, "-t", "nginx", "--templates", "gone").code == 2


def test_a_balancer_has_to_be_one_of_the_peers(lbgen, tmp_path):
    text = SMALLEST + 'balancers: {count: 2, peers: {lb-0: "10.0.0.1:10000", lb-1: "10.0.0.2:10000"}}\n'
    (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
    assert lbgen("render", "two.yaml", "-t", "haproxy", "--balancer", "lb-1").code == 0
    ended = lbgen("render", "two.yaml", "-t", "haproxy", "--balancer", "lb-9")
    assert ended.code == 2
    assert "lb-1" in ended.err or "lb-0" in ended.err


def test_a_folder_that_cannot_be_made(lbgen, smallest, tmp_path):
    (tmp_path / "file").write_text("")
    ended = lbgen("render", smallest, "-o", "file")
    assert ended.code == 2
    assert "file" in ended.err


APART = """
pools: {chat: {servers: ["127.0.0.1:8000"]}}
listeners:
  public: {bind: "127.0.0.1:8443", auth: none, tls: {certificate: /nowhere/c.pem, key: /nowhere/k.pem}}
targets: {nginx: {version: "1.22"}, haproxy: {version: "2.6"}}
"""


def test_certificates_on_the_balancers_machine_stop_no_other_file(lbgen, tmp_path):
    (tmp_path / "tls.yaml").write_text(APART, encoding="utf-8")
    ended = lbgen("render", "tls.yaml", "-o", "out")
    assert ended.code == 0
    assert {"nginx/nginx.conf", "haproxy/haproxy.cfg"} <= set(tree(tmp_path / "out"))
    assert not list((tmp_path / "out").rglob("*.pem"))
    assert "cat /nowhere/c.pem /nowhere/k.pem > /etc/haproxy/secrets/certificate-1.pem" in ended.err
    assert lbgen("render", "tls.yaml", "-o", "out", "--check").code == 0
    assert lbgen("plan", "tls.yaml", "-t", "haproxy", "--to", "out/haproxy", "--exit-code").code == 0
    ended = lbgen("apply", "tls.yaml", "-t", "haproxy", "--to", "out/haproxy")
    assert ended.code == 2
    assert "/nowhere/c.pem cannot be read" in ended.err
    assert "openssl" not in ended.err


def test_files_that_are_not_complete_are_told_last_and_fail_a_strict_run(lbgen, tmp_path):
    (tmp_path / "tls.yaml").write_text(APART, encoding="utf-8")
    ended = lbgen("render", "tls.yaml", "-o", "out", "--strict", "--format", "json")
    assert ended.code == 1
    assert json.loads(ended.out)["left_out"] == ["secrets/certificate-1.pem"]
    assert ended.err.splitlines()[-1].startswith("lbgen: warning: not complete: secrets/certificate-1.pem")
    here = APART.replace("/nowhere", str(tmp_path))
    (tmp_path / "tls.yaml").write_text(here, encoding="utf-8")
    for name in ("c", "k"):
        (tmp_path / f"{name}.pem").write_text(f"{name}\n")
    assert lbgen("render", "tls.yaml", "-o", "out", "--strict").code == 0
    (tmp_path / "k.pem").unlink()
    ended = lbgen("render", "tls.yaml", "-o", "out", "--strict")
    assert ended.code == 0
    assert "secrets/certificate-1.pem was not changed" in ended.err


def test_relative_certificates_lie_beside_the_files(lbgen, tmp_path):
    (tmp_path / "tls.yaml").write_text(APART.replace("/nowhere/", "tls/"), encoding="utf-8")
    words = ["-t", "haproxy", "--to", "lb", "--binary", "none"]
    ended = lbgen("apply", "tls.yaml", *words)
    assert ended.code == 2
    assert "here lb, then from the target's 'directory', /etc/haproxy" in ended.err
    (tmp_path / "lb/tls").mkdir(parents=True)
    for name in ("c", "k"):
        (tmp_path / f"lb/tls/{name}.pem").write_text(f"{name}\n")
    assert lbgen("plan", "tls.yaml", *words).code == 0
    assert lbgen("apply", "tls.yaml", *words).code == 0
    assert (tmp_path / "lb/secrets/certificate-1.pem").read_text().endswith("\nc\nk\n")
    assert lbgen("plan", "tls.yaml", *words, "--exit-code").code == 0


def test_all_missing_secrets_are_told_at_once(lbgen, tmp_path):
    clients = "clients: {a: {key: file:a.key}, b: {key: env:NOT_THERE_B}, c: {key: file:c.key}}\n"
    listener = "listeners: {public: {bind: '127.0.0.1:1', auth: {clients: all}}}\n"
    (tmp_path / "keys.yaml").write_text("pools: {chat: {servers: [gpu:8000]}}\n" + listener + clients)
    ended = lbgen("render", "keys.yaml", "-o", "out")
    assert (ended.code, (tmp_path / "out").exists()) == (2, False)
    assert all(f"the secret {name} " in ended.err for name in ("file:a.key", "env:NOT_THERE_B", "file:c.key"))
    assert ended.err.rstrip().endswith(
        "to make a new key, for example: (umask 077; openssl rand -hex 24 > a.key)"
    )


def test_a_joined_certificate_that_lies_there_stays(lbgen, tmp_path):
    for name in ("c", "k"):
        (tmp_path / f"{name}.pem").write_text(f"{name}\n")
    (tmp_path / "tls.yaml").write_text(APART.replace("/nowhere", str(tmp_path)), encoding="utf-8")
    assert lbgen("render", "tls.yaml", "-o", "out").code == 0
    path = tmp_path / "out/haproxy/secrets/certificate-1.pem"
    before = path.read_text()
    assert before.endswith("\nc\nk\n")
    (tmp_path / "k.pem").unlink()
    assert lbgen("render", "tls.yaml", "-o", "out").code == 0
    assert path.read_text() == before


def test_warnings_are_whole_in_check_alone(lbgen, tmp_path):
    pool = "pools: {chat: {servers: [gpu-0:8000], timeouts: {idle: 30s, first_byte: 30s}}}"
    (tmp_path / "fleet.yaml").write_text(f"{pool}\nlisteners: {{a: {{bind: '127.0.0.1:1'}}}}\n")
    assert "  hint: " in lbgen("check", "fleet.yaml", "--binary", "none").err
    ended = lbgen("render", "fleet.yaml", "-t", "nginx", "-o", "out").err
    assert ended.startswith("fleet.yaml:1:")
    assert "warning[short-read-timeout]: " in ended
    assert "hint" not in ended
    for words in (["plan", "--to", "out/nginx"], ["apply", "--to", "out/nginx", "--binary=none"]):
        ended = lbgen(words[0], "fleet.yaml", "-t", "nginx", *words[1:])
        first = "2 warnings (short-read-timeout); for details, run 'lbgen check fleet.yaml -t nginx'"
        assert (ended.err.splitlines()[0], ended.code) == (first, 0)
    assert "  hint: " in lbgen("-v", "plan", "fleet.yaml", "-t", "nginx", "--to", "out/nginx").err
