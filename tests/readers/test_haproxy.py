"""HAProxy files as sections: words, defaults, conditions, servers with their default-server."""

from __future__ import annotations

import pytest

from lbgen.readers.haproxy import Haproxy, Section, parse_haproxy
from lbgen.readers.haproxy_words import split_words


def read(text: str, version: str = "") -> Haproxy:
    return parse_haproxy([("a.cfg", text)], version)


def section(config: Haproxy, name: str) -> Section:
    return next(one for one in config.sections if one.name == name)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  balance\tleastconn ", ("balance", "leastconn")),
        ('http-request set-header X "a b"c', ("http-request", "set-header", "X", "a bc")),
        (r"acl a path_beg a\ b\#c", ("acl", "a", "path_beg", "a b#c")),
        (r"x 'a\ b' \x41\n", ("x", r"a\ b", "A\n")),
        (r"x (\d+)\.", ("x", r"(\d+)\.")),
        ("server a b:1#no blank before it", ("server", "a", "b:1")),
        ("x '' end", ("x", "", "end")),
        ('x "#no comment"', ("x", "#no comment")),
        (r'x "a \"b\""', ("x", 'a "b"')),
    ],
)
def test_words_are_those_of_haproxy(line: str, words: tuple[str, ...]) -> None:
    assert split_words(line)[0] == words


def test_a_comment_is_apart_from_words() -> None:
    assert split_words("a b # c") == (("a", "b"), " c", "")
    assert split_words("a 'b")[2]


TEXT = """\
defaults
    timeout server 30s
    option abortonclose
    default-server inter 5s
defaults slow from fast
defaults fast
    timeout server 10m
    option redispatch
# the GPUs
backend gpus from fast # all
    no option redispatch
    default-server check maxconn 8
    server a 10.0.0.1:8000 maxconn 4 # rack 1
    server b 10.0.0.2:8000 no-check
    server-template t 1-3 vllm:8000
backend late
frontend in
    timeout client 1m
"""


def test_values_come_through_the_defaults() -> None:
    config = read(TEXT.replace("defaults slow from fast\n", ""))
    gpus, late = section(config, "gpus"), section(config, "late")
    timeout = gpus.last("timeout", "server")
    assert timeout is not None
    assert (timeout.words[-1], str(timeout.location)) == ("10m", "a.cfg:6:5")
    assert gpus.option("redispatch") is None  # taken back
    assert gpus.option("abortonclose") is None  # anonymous defaults are not those of 'from fast'
    assert late.option("redispatch") is not None  # without 'from': the last ones above
    assert config.problems == ()


def test_defaults_can_have_defaults() -> None:
    config = read(
        "defaults a\n retries 1\n timeout client 5s\ndefaults b from a\n retries 3\nfrontend f from b\n"
    )
    one = section(config, "f")
    assert [one.last("retries"), one.last("timeout", "client")] == [
        config.sections[1].lines[0],
        config.sections[0].lines[1],
    ]


def test_unknown_defaults_are_told() -> None:
    (problem,) = read(TEXT).problems
    assert str(problem.location) == "a.cfg:5:1"
    assert "'fast'" in problem.message


def test_servers_have_what_default_server_says() -> None:
    gpus = section(read(TEXT.replace("defaults slow from fast\n", "").replace(" from fast", "")), "gpus")
    a, b, template = gpus.servers()
    assert (a.parameter("maxconn"), a.parameter("inter"), a.has("check")) == ("4", None, True)
    assert (b.parameter("maxconn"), b.has("check")) == ("8", False)
    assert (template.slots, template.address) == (3, "vllm:8000")
    assert a.line.comments == ("rack 1",)
    assert gpus.head.comments == ("the GPUs", "all")
    inherited = section(read("defaults\n default-server inter 5s\nbackend x\n server a b:1 check\n"), "x")
    assert inherited.servers()[0].parameter("inter") == "5s"


def test_files_are_read_in_their_order() -> None:
    config = parse_haproxy([("a", "defaults\n mode http\n"), ("b", "backend x\n server a b:1\n")])
    mode = section(config, "x").last("mode")
    assert mode is not None
    assert mode.location.file == "a"


def test_conditions_choose_lines() -> None:
    text = (
        "global\n.if version_atleast(2.8)\n a 1\n.elif 1\n a 2\n.else\n a 3\n.endif\n"
        ".if !0\n b 1\n.endif\n.if 0\n.if 1\n c 1\n.endif\n c 2\n.endif\n"
    )
    assert [line.words for line in read(text, "2.6").sections[0].lines] == [("a", "2"), ("b", "1")]
    assert [line.words for line in read(text, "3.0").sections[0].lines] == [("a", "1"), ("b", "1")]
    doubted = read(text)
    assert [line.words for line in doubted.sections[0].lines] == [("a", "1"), ("b", "1")]
    assert [(one.code, str(one.location)) for one in doubted.problems] == [("unknown-condition", "a.cfg:2:1")]
    assert read("global\n.if 1\n").problems


def test_what_stands_outside_a_section_is_told() -> None:
    (problem,) = read("mode http\nglobal\n").problems
    assert (problem.code, str(problem.location)) == ("configuration-syntax", "a.cfg:1:1")
