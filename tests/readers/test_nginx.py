"""NGINX files as a tree: places, comments, includes, inheritance, and what could be read of a broken one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.readers.nginx import parse_nginx

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
events {}
http {
    proxy_read_timeout 60s; # the default
    upstream gpus {
        # the first one
        server 10.0.0.1:8000 weight=2 max_fails=3; # rack 1
        server 10.0.0.2:8000; server 10.0.0.3:8000 backup;
    }
    server {
        proxy_set_header Host $host;
        location / {
            proxy_set_header X-Quote "a \\"b\\" \\\\ ; }";
            proxy_pass http://gpus;
        }
        location ~ "^/v1/(\\d{2})$" { }
    }
}
"""


def test_directives_have_places_parameters_and_comments() -> None:
    config = parse_nginx("a.conf", TEXT)
    assert config.problems == ()
    first, second, third = [one for one, _ in config.directives("server") if one.block is None]
    assert (str(first.location), str(second.location), str(third.location)) == (
        "a.conf:6:9",
        "a.conf:7:9",
        "a.conf:7:31",
    )
    assert (first.parameter("weight"), first.parameter("max_fails"), second.parameter("weight")) == (
        "2",
        "3",
        None,
    )
    assert first.comments == ("the first one", "rack 1")
    assert second.comments == ()
    assert third.args == ("10.0.0.3:8000", "backup")


def test_quotes_and_escapes_are_those_of_nginx() -> None:
    config = parse_nginx("a.conf", TEXT)
    value = next(one for one, _ in config.directives("proxy_set_header") if one.value == "X-Quote")
    assert value.args[1] == 'a "b" \\ ; }'


def test_a_level_takes_the_nearest_that_is_written() -> None:
    config = parse_nginx("a.conf", TEXT)
    ((_, location),) = config.directives("proxy_pass")
    timeout = location.first("proxy_read_timeout")
    assert timeout is not None
    assert timeout.value == "60s"
    assert [one.value for one in location.all("proxy_set_header")] == ["X-Quote"]  # replaced, not merged
    server = location.around("server")
    assert server is not None
    assert server.location.line == 9
    assert location.first("proxy_buffering") is None


def test_includes_are_followed_from_the_folder_of_the_main_file(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.conf").write_text("upstream b { server b:1; }")
    (tmp_path / "conf.d" / "a.conf").write_text("include common; upstream a { server a:1; }")
    (tmp_path / "common").write_text("proxy_buffering off;\n")
    main = str(tmp_path / "nginx.conf")
    config = parse_nginx(main, "http {\n  include conf.d/*.conf;\n  include gone.conf;\n}\n")
    (http,) = config.root.inside("http")
    assert [one.value for one in http.block or ()] == ["off", "a", "b"]
    buffering = next(one for one, _ in config.directives("proxy_buffering"))
    assert buffering.location.file == str(tmp_path / "common")
    (problem,) = config.problems
    assert (problem.code, problem.location) == ("unreadable-include", problem.location)
    assert problem.location is not None
    assert problem.location.line == 3
    assert len(config.texts) == 4


def test_a_fragment_includes_from_the_folder_of_its_main_file(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "proxy_params").write_text("proxy_buffering off;\n")
    text = "server { include proxy_params; }"
    assert parse_nginx(str(tmp_path / "conf.d" / "llm.conf"), text).problems == ()
    (tmp_path / "conf.d" / "proxy_params").write_text("proxy_buffering on;\n")
    found = parse_nginx(str(tmp_path / "conf.d" / "llm.conf"), text)
    assert [one.value for one, _ in found.directives("proxy_buffering")] == ["on"]
    (tmp_path / "own").mkdir()
    assert parse_nginx(str(tmp_path / "own" / "llm.conf"), text).problems


def test_an_include_of_itself_ends(tmp_path: Path) -> None:
    main = tmp_path / "nginx.conf"
    main.write_text("include nginx.conf;\n")
    config = parse_nginx(str(main), main.read_text())
    (problem,) = config.problems
    assert (problem.code, str(problem.location)) == ("configuration-syntax", f"{main}:1:1")
    assert problem.message == f"{main} includes itself"


def test_what_stands_before_an_error_is_read() -> None:
    config = parse_nginx("a.conf", "http {\n  upstream a {\n    server x:1;\n")
    assert [one.value for one, _ in config.directives("server")] == ["x:1"]
    assert {problem.code for problem in config.problems} == {"configuration-syntax"}
    missing = parse_nginx("a.conf", "server {\n  listen 80\n}\nuser www;\n")
    assert [one.name for one in missing.root.block or ()] == ["server", "user"]
    assert [str(problem.location) for problem in missing.problems] == ["a.conf:2:3"]
    assert parse_nginx("a.conf", "a b;\n}\nc d;").problems


def test_a_lua_block_is_one_argument() -> None:
    config = parse_nginx(
        "a.conf", "server {\n access_by_lua_block {\n  if a then b = '{' end\n }\n root /x;\n}\n"
    )
    (server,) = config.root.block or ()
    assert [one.name for one in server.block or ()] == ["access_by_lua_block", "root"]


def test_fragments_are_told_from_whole_files() -> None:
    assert parse_nginx("a", "upstream a { server b:1; }").is_fragment
    assert not parse_nginx("a", "events {}\nhttp {}").is_fragment
