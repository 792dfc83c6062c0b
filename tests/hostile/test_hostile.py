"""Hostile texts in every place of a fleet file: refused with a place, or one literal word."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from lbgen.fleet.load import load
from lbgen.fleet.schema import FLEET as TABLE
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import StandInSecrets
from tests.hostile.base import KEY, NOT_IN_THE_BASE, base, fields_of, places, replaced, text_at
from tests.hostile.structure import haproxy_structure, nginx_structure
from tests.properties.examples import examples

if TYPE_CHECKING:
    from collections import Counter

    from lbgen.fleet.load import Loaded
    from tests.hostile.base import Place

TARGETS = ("nginx", "haproxy")
ALL = bool(os.environ.get("LBGEN_ALL"))
CHARACTERS = [
    "\n",
    "\r",
    "\0",
    "\t",
    "\x1b",
    ";",
    "{",
    "}",
    "#",
    '"',
    "'",
    "\\",
    "$",
    "%",
    "`",
    "|",
    " ",
    ",",
]
WITHIN = [*"\n\0;{}#\"'\\$% ", "\u2028", "\u202e"]
UNSEEN = ["\u2028", "\u0085", "\u202e", "\u2066", "\u200f", "\ufeff", "\u00a0", "\ud7ff", "é", "\U0001f600"]
WORDS = [
    "a\n}\nserver { listen 81; }\n", "a; return 200 x;", "a } location / { return 200; ", "x # y",
    "${HOME}", "$host", "$lb_text_1", "%[env(HOME)]", "%%", "%{+X}o", "' \"", "\\'", "\\", "a\\",
    '"; include /etc/passwd; "', "a b c", "*/", "<!--", "{{ 7*7 }}", "{% raw %}", "env:", "env:HOME",
    "file:/etc/passwd", "../../etc/passwd", "/a b", "/%2e%2e/x", "/a;b", "/a$host", "/a'b", '/a"b',
    "/a{b}", "/a\\b", "~^/", "/ok(.*)", "=/x", "a" * 10_000, "", " ", "-", "--", "on", "default",
    "hostnames", "include", "volatile", "~.*", "*", "ranges", "delete", "up", "]",
]  # fmt: skip

LOGGED = ("model", "client_address", "prompt_bytes", "max_tokens", "decision")
"""What stands for a value of the request in `logs.fields`."""


def text_of(fleet: dict[str, Any]) -> str:
    return yaml.dump(fleet, Dumper=yaml.CSafeDumper, sort_keys=False, width=1_000_000)


def read(fleet: dict[str, Any]) -> Loaded:
    return load([Source("fleet.yaml", text_of(fleet))], environ={})


@functools.cache
def without(target: str) -> tuple[str, ...]:
    """Return what the target cannot do of the base, so that the rest can be looked at."""
    problems = read(base(target)).problems
    keys = {problem.message.split("'")[1] for problem in problems if problem.code == "target-refused"}
    return tuple(sorted(keys))


@functools.cache
def plain(target: str) -> dict[str, Any]:
    fleet = base(target, without(target))
    assert [str(problem) for problem in read(fleet).problems if problem.is_error] == []
    return fleet


def structure(loaded: Loaded, target: str) -> Counter[object]:
    """Return what was rendered, without its texts: directives of the main file, number of lines of others."""
    assert loaded.fleet is not None
    files = render(loaded.fleet, target, secrets=StandInSecrets())
    for file in files:
        assert "\0" not in file.text
        assert "\r" not in file.text
    with tempfile.TemporaryDirectory() as folder:
        main = files[0].text
        found = nginx_structure(main, Path(folder)) if target == "nginx" else haproxy_structure(main)
    for file in files[1:]:
        found[file.path, len(file.text.split("\n"))] += 1
    return found


@functools.cache
def expected(target: str, place: Place, text: str) -> Counter[object]:
    """Return the structure with a harmless text of the same sort in this place; empty: as it was."""
    return structure(read(replaced(plain(target), place, text) if text else plain(target)), target)


def harmless(place: Place, text: str) -> str:
    """Return a text for places in which one sort of text is rightly rendered by other directives."""
    if text.startswith(("env:", "file:")) and "headers" in place:
        return "env:HARMLESS"
    if place[:2] == ("logs", "fields") and place[-1] != KEY:
        return "header:X-Other" if text.startswith("header:") else text if text in LOGGED else "eu-2"
    if place[-2:] == ("auth", "header"):
        return "X-Other"
    if place[-1] != KEY and {"model", "models"} & set(place[-2:-1]):
        return "llama-3*" if "*" in text else "llama-3"
    return text if place[-2:] == ("origins", 0) and text == "*" else ""


def check(target: str, place: Place, text: str) -> bool:
    """Assert what has to hold, and tell whether the text was accepted."""
    loaded = read(replaced(plain(target), place, text))
    errors = [problem for problem in loaded.problems if problem.is_error]
    if errors:
        assert all(problem.location and problem.location.line >= 1 for problem in errors)
        return False
    assert structure(loaded, target) == expected(target, place, harmless(place, text))
    return True


SLOTS = [(target, place) for target in TARGETS for place in places(base(target))]
slots = st.sampled_from(SLOTS)
hostile = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.sampled_from([*CHARACTERS, *UNSEEN, "a", "/", ":", "1"]), min_size=1, max_size=8),
    st.text(max_size=20),
)


@given(slot=slots, text=hostile)
@examples(150, 1_500)
@example(slot=("nginx", ("name",)), text="a\nb")
def test_in_place_of_any_text(slot: tuple[str, Place], text: str) -> None:
    check(*slot, text)


@given(slot=slots, text=hostile)
@examples(150, 1_500)
def test_behind_any_text(slot: tuple[str, Place], text: str) -> None:
    target, place = slot
    check(target, place, text_at(plain(target), place) + text)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("character", WITHIN, ids=lambda character: f"U+{ord(character):04X}")
def test_each_character_within_each_text(target: str, character: str) -> None:
    """One character more, in the middle of texts: in all of them or, to be quick, in every third."""
    first, step = (0, 1) if ALL else (WITHIN.index(character) % 3, 3)
    for place in places(plain(target))[first::step]:
        text = text_at(plain(target), place)
        middle = len(text) // 2
        check(target, place, text[:middle] + character + text[middle:])


@pytest.mark.parametrize("target", TARGETS)
def test_some_texts_may_hold_nearly_anything(target: str) -> None:
    """Refusing everything would pass, too; these are for free text."""
    if "respond" in without(target):
        return
    place = ("listeners", "public", "routes", 1, "respond", "body")
    for text in ("a b", "a;b", "it's", '"', "\\", "{}", "#", "$host", "%[x]", "50 %", "é"):
        assert check(target, place, text), text


def test_the_base_holds_every_text() -> None:
    """Each text of the field table is in the base, or named as left out."""
    table = {path for path in fields_of(TABLE) if not path.startswith(tuple(_left_out()))}
    written = set()
    for target in TARGETS:
        for place in places(base(target)):
            written.add(".".join(str(part) for part in place if part != KEY and not isinstance(part, int)))
    missing = {path for path in table if not any(_fits(path, text) for text in written)}
    assert missing == set()


def _left_out() -> list[str]:
    return [path.replace("targets.*", f"targets.{target}") for path in NOT_IN_THE_BASE for target in TARGETS]


def _fits(path: str, written: str) -> bool:
    parts, names = path.split("."), written.split(".")
    return len(parts) == len(names) and all(
        part in ("*", name) for part, name in zip(parts, names, strict=True)
    )
