"""The README's picture is what lbgen makes of the command that stands below it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lbgen.cli.guard import run

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "in-flight.svg"


def command() -> list[str]:
    """Return the words of the README's command that makes the picture."""
    text = (ROOT / "README.md").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^lbgen (simulate .*--report docs/images/in-flight\.svg)$", text, re.MULTILINE)
    return shlex.split(line)


def test_the_picture_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made.svg"
    monkeypatch.chdir(ROOT)
    assert run([*command()[:-1], str(made)]) == 0
    assert made.read_text() == PICTURE.read_text(), "the README's command writes it anew"


def test_the_readme_shows_it() -> None:
    assert "](docs/images/in-flight.svg)" in (ROOT / "README.md").read_text()


def test_long_names_have_lines_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    names = [f"gpu-{number}.inference.internal.example.org" for number in (0, 1)]
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"pools: {{chat: {{servers: ['{names[0]}:8000', '{names[1]}:8000']}}}}\n")
    few = ["--requests=200", "--seed=1", "--strategy=least_conn"]
    assert run(["simulate", str(fleet), *few, "--report", str(path)]) == 0
    texts = ET.fromstring(path.read_text()).iter("{http://www.w3.org/2000/svg}text")
    places = [(one.attrib["x"], one.attrib["y"]) for one in texts if one.text in names]
    assert len(places) == 2
    assert len({x for x, _ in places}) == 1
    assert len({y for _, y in places}) == 2


@pytest.mark.parametrize(
    ("words", "charts"),
    [
        ((), ["over-time"] * 2),
        (("--load=0.5", "--load=0.9"), ["ttft-load", "e2e-load"]),
        (("--strategy=pack", "--set=pools.chat.max_in_flight=8"), ["over-time"] * 3),
    ],
    ids=["one load", "two loads", "three strategies"],
)
def test_each_picture_is_whole(words: tuple[str, ...], charts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    fleet = str(ROOT / "examples" / "smallest.yaml")
    usual = ["--strategy=round_robin", "--strategy=least_conn", "--requests=200", "--seed=1"]
    assert run(["simulate", fleet, *usual, *words, "--report", str(path)]) == 0
    text = path.read_text()
    assert re.findall(r'data-chart="([^"]+)"', text) == charts
    root = ET.fromstring(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == 360 * len(charts)
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert max(float(element.attrib["y"]) for element in texts) < height
    for name in ("round_robin", "least_conn"):
        assert any((element.text or "").startswith(name) for element in texts)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
