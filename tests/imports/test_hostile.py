"""Damaged configurations: a fleet that loads, or one clear error; never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.imports.whole import import_configurations
from lbgen.problems import FleetError, LbgenError

HERE = Path(__file__).parent
FILES = sorted([*HERE.glob("*/*/nginx.conf"), *HERE.glob("*/*/haproxy.cfg")])
ENVIRONMENT = dict.fromkeys(("ENGINE_PORT", "LISTEN_PORT", "x"), "8000")
PIECES = (
    *('"', "\\", "{", "}", ";", "$x", "-1", "0", "if", "unless", "||", "!", "", "é", "/", "9" * 12, "*"),
    *(
        "%[x]",
        "~ ^/(a|",
        "127.0.0.1",
        "[::]:80",
        "unix:/x",
        "acl",
        "-f",
        "-m",
        "beg",
        "#",
        "${x}",
        "x-",
        "\x1b[2J",
    ),
)


def damaged(text: str, chance: random.Random) -> str:
    """Return a text with a few words gone, doubled, cut short or replaced."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 3)):
        line = chance.randrange(len(lines))
        words = lines[line].split(" ")
        at = chance.randrange(len(words))
        words[at : at + 1] = chance.choice(
            [[], [chance.choice(PIECES)], [words[at], chance.choice(PIECES)], [words[at][:1]], words]
        )
        lines[line] = " ".join(words)
    return "\n".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_damage_is_survived(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(path.parent.name)
    for _ in range(12):
        Path(path.name).write_text(damaged(path.read_text(), chance))
        try:
            found = import_configurations([path.name])
        except LbgenError:
            continue
        errors = [problem for problem in found.problems if problem.is_error]
        loaded = load([Source("fleet.yaml", found.text(comments=True))], environ=ENVIRONMENT)
        still = [problem for problem in loaded.problems if problem.is_error]
        assert {problem.path for problem in still} == {problem.path for problem in errors}
        assert "\x1b" not in found.text(comments=True)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("nginx.conf", "server {\n" + "location / {\n" * 2_000 + "}\n" * 2_001, "nginx.conf:101"),
        ("nginx.conf", "upstream a { server b; }\ninclude a\0b;\n", "nginx.conf:2"),
        ("haproxy.cfg", "backend a\n  server s\0 10.0.0.1:80\n", "haproxy.cfg:2"),
        ("haproxy.cfg", "backend a\n  server s\\x00 10.0.0.1:80\n", "haproxy.cfg:2"),
    ],
    ids=("deep", "nul", "nul in a line", "nul by an escape"),
)
def test_what_cannot_be_read_is_an_error_with_its_place(
    name: str, text: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    with pytest.raises(FleetError) as raised:
        import_configurations([name])
    location = raised.value.problems[0].location
    assert location is not None
    assert f"{location.file}:{location.line}" == place


def test_files_that_include_each_other_without_end_are_an_error(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.conf").write_text(f"include {number + 1}.conf;\n")
    with pytest.raises(FleetError, match="include each other"):
        import_configurations([str(tmp_path / "0.conf")])
