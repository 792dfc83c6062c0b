from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from lbgen import __version__
from lbgen.cli.app import COMMANDS, module_name
from lbgen.cli.help.examples import EXAMPLES


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command(lbgen, flag):
    ended = lbgen(flag)
    assert ended.code == 0
    assert all(f"  {name} " in ended.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_of_its_own(lbgen, name):
    ended = lbgen(name, "-h")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: lbgen {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name):
    module = import_module(module_name(name))
    assert module.command.get_short_help_str(200).rstrip(".") == COMMANDS[name].rstrip(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_are_valid(lbgen, name):
    assert EXAMPLES[name]
    ended = lbgen(name, "--help")
    for line in EXAMPLES[name]:
        assert f"\n  {line}\n" in ended.out
        plain = line.removeprefix('eval "$(').partition(')"')[0].partition(" > ")[0]
        words = shlex.split(plain)[1:]
        command = import_module(module_name(words[0])).command
        with command.make_context(words[0], words[1:]) as context:  # raises for what it does not take
            assert context.params is not None


def test_version(lbgen):
    assert lbgen("--version") == (0, f"lbgen {__version__}\n", "")


def test_no_command_shows_help(lbgen):
    ended = lbgen()
    assert ended.code == 2
    assert "Fleet files:" in ended.out + ended.err


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["rendr"], "render"), (["chek", "x"], "check"), (["render", "--chck", "x"], "--check")],
)
def test_unknown_words_name_the_nearest(lbgen, arguments, near):
    ended = lbgen(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert near in ended.err


@pytest.mark.parametrize("arguments", [["-q", "check"], ["check", "-q"], ["check", "--quiet"]])
def test_global_options_stand_before_and_after_the_command(lbgen, smallest, arguments):
    ended = lbgen(*arguments, smallest, "--binary", "none")
    assert ended.code == 0
    assert ended.err == ""
    assert "open-listener" in lbgen("check", smallest, "--binary", "none").err


@pytest.mark.parametrize(
    ("arguments", "environ", "colored"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {"LBGEN_COLOR": "always"}, True),
    ],
)
def test_color(  # noqa: PLR0913, PLR0917 - the cases and what they need
    lbgen, smallest, monkeypatch, arguments, environ, colored
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ended = lbgen(*arguments, "check", smallest, "--binary", "none")
    assert ("\x1b[" in ended.err) is colored


def test_commands_are_imported_only_when_called():
    script = (
        "import sys; from lbgen.cli.guard import run; run(['--help']); "
        "print([name for name in sys.modules if name in ('yaml', 'jinja2', 'lbgen.cli.operate.render')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(lbgen, shell):
    ended = lbgen("completion", shell)
    assert ended.code == 0
    assert "_LBGEN_COMPLETE" in ended.out


def test_completion_knows_commands_and_targets():
    for words, expected in (
        ("lbgen re", "render"),
        ("lbgen help re", "render"),
        ("lbgen render -t ha", "haproxy"),
    ):
        environ = {
            **os.environ,
            "_LBGEN_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        done = subprocess.run(
            [sys.executable, "-m", "lbgen"], capture_output=True, text=True, check=False, env=environ
        )
        assert f"plain,{expected}" in done.stdout, done.stderr


def test_help_is_a_word_too(lbgen):
    assert lbgen("help").out == lbgen("--help").out
    assert lbgen("help", "drain").out == lbgen("drain", "--help").out
    ended = lbgen("help", "drian")
    assert ended.code == 2
    assert "did you mean drain" in ended.err
