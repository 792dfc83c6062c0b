"""Whatever is wrong with a fleet: one clear error with its place, and nothing is written."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BAD_FLEETS = {
    "empty": ("", None),
    "only a comment": ("# nothing\n", None),
    "a list at the top": ("- pools\n", 1),
    "a scalar at the top": ("pools\n", 1),
    "a tab": ("pools:\n\tchat:\n", 2),
    "an unclosed bracket": ("pools: {chat: {servers: [gpu-0:8000}\n", 1),
    "an unknown key": ("pools:\n  chat:\n    servrs: [gpu-0:8000]\n", 3),
    "a duplicate key": ("pools:\n  chat: {servers: [a:1]}\n  chat: {servers: [b:1]}\n", 3),
    "a bad port": ("pools:\n  chat:\n    servers:\n      - gpu-0:80000\n", 4),
    "no port": ("pools:\n  chat:\n    servers:\n      - gpu-0\n", 4),
    "a duplicate server": ("pools:\n  chat:\n    servers:\n      - gpu-0:8000\n      - gpu-0:8000\n", 5),
    "an empty pool": ("pools:\n  chat:\n    servers: []\n", 3),
    "only backups": ("pools:\n  chat:\n    servers:\n      - {address: 'a:1', backup: true}\n", None),
    "an unknown strategy": ("pools:\n  chat:\n    strategy: least_con\n    servers: [a:1]\n", 3),
    "an unknown target": ("pools: {chat: {servers: [a:1]}}\ntargets:\n  apache: {}\n", 3),
    "no pools": ("version: 1\n", None),
    "a float for a version": ("pools: {c: {servers: [a:1]}}\ntargets:\n  nginx: {version: 1.22}\n", 3),
}


@pytest.mark.parametrize("command", [["render", "-o", "out"], ["check", "--binary", "none"], ["show"]])
@pytest.mark.parametrize("case", BAD_FLEETS)
def test_bad_fleets(lbgen, tmp_path, command, case):
    text, line = BAD_FLEETS[case]
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    ended = lbgen(*command, "bad.yaml")
    assert ended.code in {1, 2}
    assert "error" in ended.err
    assert f"bad.yaml:{line}:" in ended.err if line else "bad.yaml" in ended.err
    assert ended.out == ""
    assert not (tmp_path / "out").exists()


def test_all_problems_come_at_once(lbgen, tmp_path):
    text = "pools:\n  chat:\n    servrs: [a:1]\n    servers: [b:99999]\n    strategy: leest\nlisteners: 3\n"
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    ended = lbgen("render", "bad.yaml", "-o", "out")
    assert ended.code == 1
    assert all(f"bad.yaml:{line}:" in ended.err for line in (3, 4, 5, 6))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone.yaml", "No such file"),
        ("folder", "Is a directory"),
        ("gone/deeper.yaml", "No such file"),
        ("latin.yaml", "UTF-8"),
        ("utf16.yaml", "UTF-8"),
    ],
)
def test_what_cannot_be_read(lbgen, tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.yaml").write_bytes("# caf\xe9\n".encode("latin-1"))
    (tmp_path / "utf16.yaml").write_bytes("pools:".encode("utf-16"))
    ended = lbgen("render", name, "-t", "nginx")
    assert (ended.code, ended.out) == (2, "")
    assert reason in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "pipe"],
        ["check", "/dev/zero"],
        ["check", "f.yaml", "pipe"],
        ["check", "--binary", "none", "discovers.yaml"],
        ["render", "-t", "haproxy", "-o", "out", "secret.yaml"],
        ["render", "-t", "nginx", "--templates", "own", "f.yaml"],
        ["simulate", "f.yaml", "--workload", "pipe.yaml"],
        ["simulate", "f.yaml", "--workload", "pipe.csv"],
        ["simulate", "f.yaml", "--calibrate", "pipe"],
    ],
    ids=" ".join,
)
def test_a_pipe_or_a_device_is_not_waited_for(lbgen, tmp_path, arguments):
    for name in ("pipe", "pipe.yaml", "pipe.csv", "own/nginx/nginx.conf.j2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    (tmp_path / "f.yaml").write_text("pools: {chat: {servers: [gpu-0:8000], engine: vllm}}\n")
    (tmp_path / "discovers.yaml").write_text("pools: {chat: {discover: {file: pipe}}}\n")
    (tmp_path / "secret.yaml").write_text(
        "pools: {chat: {servers: [gpu-0:8000]}}\n"
        f"clients: {{a: {{key: 'file:{tmp_path}/pipe'}}}}\n"
        "listeners: {public: {bind: 127.0.0.1:8080, auth: {clients: all}}}\n"
    )
    ended = lbgen(*arguments)
    assert ended.code in {1, 2}
    assert "is no regular file" in ended.err


def test_a_file_without_permission(lbgen, smallest):
    smallest.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)  # root may read everything
    try:
        ended = lbgen("render", smallest, "-t", "nginx")
    finally:
        if root:
            os.seteuid(0)
    assert ended.code == 2
    assert "Permission denied" in ended.err


def test_a_byte_order_mark_is_no_error(lbgen, tmp_path):
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfpools: {chat: {servers: [gpu-0:8000]}}\n")
    assert lbgen("render", "bom.yaml", "-t", "nginx").code == 0


@pytest.mark.parametrize("data", [b"", b" \n\n"])
def test_empty_standard_input(lbgen, data):
    ended = lbgen("render", "-", "-t", "nginx", stdin=data)
    assert (ended.code, ended.out) == (2, "")
    assert "standard input is empty" in ended.err


def test_standard_input_can_be_read_once(lbgen):
    assert lbgen("render", "-", "-", "-t", "nginx", stdin="pools: {}").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["render"],
        ["render", "f.yaml", "-t", "apache"],
        ["render", "f.yaml", "--part", "some"],
        ["check", "f.yaml", "--binary", "apache=/bin/true"],
        ["check", "f.yaml", "--binary", "sometimes"],
        ["check", "f.yaml", "--format", "xml"],
        ["init", "--engine", "vlm"],
        ["init", "--servers", "gpu-0"],
        ["show", "f.yaml", "--format", "toml"],
        ["--color", "blue", "schema"],
        ["completion", "tcsh"],
    ],
)
def test_wrong_usage(lbgen, smallest, arguments):
    smallest.rename(smallest.with_name("f.yaml"))
    ended = lbgen(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err


@pytest.mark.parametrize(
    "text",
    ["pools.chat", "=3", "pools.nothing.weight=3", "pools.chat.servers[9]=a:1", "a=b"],
)
def test_a_wrong_set(lbgen, smallest, text):
    ended = lbgen("render", smallest, "-t", "nginx", "--set", text)
    assert ended.code in {1, 2}
    assert ended.out == ""


YAML_ALPHABET = "pools: chatservrgu-0189[]{},&*!|>%@`'\"#?\n\t ~<.$\\\x00\x85\u2028\ud7ffé"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=80), st.text(YAML_ALPHABET, max_size=80).map(str.encode)))
def test_no_input_shows_a_traceback(lbgen, data):
    ended = lbgen("check", "-", "--binary", "none", stdin=data)
    assert ended.code in {0, 1, 2}
    assert "internal error" not in ended.err


WORDS = st.sampled_from(
    ["render", "check", "show", "init", "schema", "-t", "nginx", "-o", "--set", "a.b=c", "=", "-", "--", "-q",
     "--part", "http", "fleet.yaml", "", "é", "--format", "json", "--target-version", "9", "--binary", "none"]
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(WORDS, max_size=6))
def test_no_arguments_show_a_traceback(lbgen, smallest, arguments):
    ended = lbgen(*arguments, stdin=smallest.read_bytes())
    assert ended.code in {0, 1, 2}
    assert "internal error" not in ended.err
