"""``lbgen import`` and ``lbgen init --from``."""

from __future__ import annotations

import os

import pytest

NGINX = """\
upstream gpus {
    least_conn;
    # the old one
    server 10.0.0.1:8000 weight=2;
    server 10.0.0.2:8000 down; # in repair
}
server {
    listen 127.0.0.1:8080;
    location / { proxy_pass http://gpus; }
}
"""
SECRET = "sk-0123456789abcdef0123456789abcdef"


@pytest.fixture
def old(tmp_path):
    (tmp_path / "old.conf").write_text(NGINX)
    return "old.conf"


def test_the_fleet_goes_to_standard_output_and_the_rest_to_standard_error(lbgen, old):
    ended = lbgen("import", old)
    assert ended.code == 0
    assert '- {address: "10.0.0.1:8000", weight: 2}  # the old one' in ended.out
    assert '- {address: "10.0.0.2:8000", state: down}  # in repair' in ended.out
    assert ended.err == "of 8 directives 8 carried over, none left out\n"
    assert lbgen("check", "-", "--binary", "none", stdin=ended.out).code == 0


def test_a_new_file_is_written_whole_and_an_old_one_is_left_alone(lbgen, old, tmp_path):
    ended = lbgen("import", old, "-o", "fleet.yaml")
    assert (ended.code, ended.out) == (0, "")
    assert (tmp_path / "fleet.yaml").read_text() == lbgen("import", old).out
    (tmp_path / "fleet.yaml").write_text("mine")
    assert lbgen("import", old, "-o", "fleet.yaml").code == 2
    assert (tmp_path / "fleet.yaml").read_text() == "mine"


def test_what_was_left_is_named_with_its_line(lbgen, old, tmp_path):
    (tmp_path / old).write_text(NGINX.replace("least_conn;", "least_time header;"))
    ended = lbgen("import", old)
    assert ended.code == 0
    assert "  old.conf:2: least_time header: no strategy of lbgen is like it" in ended.err
    assert "of 8 directives 7 carried over, 1 not" in ended.err
    assert lbgen("import", old, "--strict").code == 1
    assert lbgen("import", old, "--strict").out == ended.out


def test_standard_input(lbgen):
    assert "10.0.0.1:8000" in lbgen("import", "-", stdin=NGINX).out


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("upstream a {\n  server b:80;\n", 1, "old.conf:2:1: error[configuration-syntax]"),
        ("server { listen 80; }\n", 2, "no server of a pool"),
        ("Dear all,\nthe meeting is at ten.\n", 2, "neither"),
        ("frontend a\n    bind :80\n    default_backend b\nbackend b\n    server c 'd:80\n", 1, "old.conf:5"),
        ("", 2, "neither"),
    ],
)
def test_what_is_no_configuration_gives_no_fleet(lbgen, tmp_path, text, code, words):
    (tmp_path / "old.conf").write_text(text)
    ended = lbgen("import", "old.conf", "-o", "fleet.yaml")
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err
    assert not (tmp_path / "fleet.yaml").exists()


def test_files_that_cannot_be_read(lbgen, tmp_path):
    assert lbgen("import", "gone.conf").code == 2
    os.mkfifo(tmp_path / "pipe")
    assert lbgen("import", "pipe").code == 2
    assert lbgen("import").code == 2


@pytest.mark.parametrize(
    "text",
    [
        """server { listen 80; location / { proxy_pass http://a:80;
               if ($http_authorization != "Bearer SECRET") { return 401; } } }""",
        """map $http_x_api_key $ok { default 0; "SECRET" 1; }
           server { listen 80; if ($ok = 0) { return 403; } location / { proxy_pass http://a:80; } }""",
        """frontend f
             bind :80
             http-request deny unless { hdr(authorization) 'Bearer SECRET' }
             default_backend b
           backend b
             server s a:80
        """,
        """frontend f
             bind :80
             acl ok hdr(x-api-key) -m str SECRET
             http-request deny deny_status 401 if !ok
             default_backend b
           backend b
             server s a:80
        """,
    ],
)
def test_keys_become_references(lbgen, tmp_path, text):
    (tmp_path / "old.conf").write_text(text.replace("SECRET", SECRET))
    for command in (("import",), ("init", "--from")):
        ended = lbgen(*command, "old.conf")
        assert ended.code == 0, ended.err
        assert SECRET not in ended.out + ended.err
        assert "auth: {clients: [" in ended.out
        assert "_KEY: the key of the client" in ended.err


def test_what_guarded_a_listener_and_has_no_key_does_not_leave_it_open(lbgen, tmp_path):
    text = NGINX.replace("location / {", 'location / { auth_basic "us"; auth_basic_user_file users;')
    (tmp_path / "old.conf").write_text(text)
    ended = lbgen("import", "old.conf")
    assert "auth: {clients: [everybody]" in ended.out
    assert "old.conf:9: auth_basic us:" in ended.err


def test_init_from_says_where_each_value_is_from(lbgen, old):
    ended = lbgen("init", "--from", old)
    assert ended.code == 0
    assert "strategy: least_conn  # old.conf:2" in ended.out
    assert ended.out.startswith("# Made of old.conf: of 8 directives 8 carried over")
    assert lbgen("init", "--from", old, "--engine", "vllm").code == 2
    assert lbgen("init", "--from", old, "-o", "a.yaml").code == 0
    assert lbgen("init", "--from", old, "-o", "a.yaml").code == 2


def test_comments_of_others_silence_no_rule(lbgen, tmp_path):
    text = NGINX.replace("127.0.0.1:8080", "8080").replace("# the old one", "# lbgen: ignore[open-listener]")
    (tmp_path / "old.conf").write_text(text)
    assert "lbgen: ignore" not in lbgen("import", "old.conf").out
