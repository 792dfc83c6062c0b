"""Each kind of value reads what it should, and refuses the rest at its place."""

from __future__ import annotations

import pytest

from lbgen.fields import (
    INVALID,
    Anything,
    Boolean,
    Choice,
    Duration,
    Field,
    Group,
    Integer,
    ListOf,
    MapOf,
    Number,
    OneOf,
    RateKind,
    Size,
    Struct,
    Text,
    Variants,
)
from lbgen.units import Rate
from tests.fleet.reading import values_of


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Text(), "abc", "abc"),
        (Text(), '"1.30"', "1.30"),
        (Text(numbers=True), "8080", "8080"),
        (Text(parse=str.upper), "abc", "ABC"),
        (Integer(), "0", 0),
        (Integer(-5), "-5", -5),
        (Number(), "1.25", 1.25),
        (Number(), "2", 2.0),
        (Boolean(), "true", True),
        (Boolean(), "false", False),
        (Choice("a", "b", aliases={"c": "b"}), "c", "b"),
        (Choice("connect", "503"), "503", "503"),
        (Duration(), "90", 90_000),
        (Duration(), "250ms", 250),
        (Size(), "1MiB", 1024**2),
        (Size(), "4096", 4096),
        (RateKind(), "600/m", Rate(600, 60)),
        (ListOf(Integer()), "[1, 2]", [1, 2]),
        (ListOf(Integer(), single=True), "1", [1]),
        (MapOf(Text(), Integer()), "{x-a: 1, b: 2}", {"x-a": 1, "b": 2}),
        (OneOf(scalar=Choice("tcp"), off=True), "false", None),
        (OneOf(scalar=Choice("tcp"), mapping=Struct("", Field("a", Integer()))), "{a: 1}", {"a": 1}),
        (Anything(), "{a: [1, 1.5, true, null, x], x-b: y}", {"a": [1, 1.5, True, None, "x"], "x-b": "y"}),
    ],
)
def test_good_values(kind, text, value):
    assert values_of(kind, text) == (value, [])


def test_data_with_one_bad_value_is_refused_as_a_whole():
    value, problems = values_of(Anything(), '{a: [1, "b\\0", {c: 0x10}]}')
    assert value is INVALID
    assert [(problem.code, problem.path) for problem in problems] == [
        ("unsafe-text", ("v", "a", 1)),
        ("bad-value", ("v", "a", 2, "c")),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "code", "hint"),
    [
        (Text(), "1.30", "wrong-type", 'quote it: "1.30"'),
        (Text(), "true", "wrong-type", 'quote it: "true"'),
        (Text(), "8080", "wrong-type", 'quote it: "8080"'),
        (Text(), "[gpu, 1]", "wrong-type", "quote"),
        (Text(), "", "wrong-type", ""),
        (Text(), "{a: b}", "wrong-type", ""),
        (Text(pattern="[a-z]+"), "A", "bad-value", ""),
        (Text(), '"a\\nb"', "unsafe-text", ""),
        (Text(), '"a\\0"', "unsafe-text", ""),
        (Text(), '"a\\u2028"', "unsafe-text", ""),
        (Text(), '"a\\u202eb"', "unsafe-text", ""),
        (Text(), '"a\\u200fb"', "unsafe-text", ""),
        (Text(), "x" * 4097, "unsafe-text", ""),
        (Integer(), '"2"', "wrong-type", "without quotes"),
        (Integer(), "1.5", "wrong-type", ""),
        (Integer(), "true", "wrong-type", ""),
        (Integer(), "0x1F90", "bad-value", ""),
        (Integer(), "0o17", "bad-value", ""),
        (Integer(), "+1", "bad-value", ""),
        (Integer(), "99999999999999999999999", "bad-value", ""),
        (Integer(1, 5), "6", "bad-value", ""),
        (Integer(1, 5), "0", "bad-value", ""),
        (Number(1, 2), "2.5", "bad-value", ""),
        (Number(), ".inf", "bad-value", ""),
        (Number(), "1e3", "bad-value", ""),
        (Boolean(), "yes", "wrong-type", "write true"),
        (Boolean(), '"off"', "wrong-type", "write false"),
        (Boolean(), "1", "wrong-type", ""),
        (Choice("connect", "reset"), "conect", "bad-value", "did you mean 'connect'"),
        (Choice("connect", "503"), "504", "wrong-type", ""),
        (Choice("a"), "[a]", "wrong-type", ""),
        (Duration(), "10min", "bad-value", ""),
        (Duration(), "1.5", "wrong-type", "whole number"),
        (Duration(), "30d", "bad-value", ""),
        (Duration(), "0s", "bad-value", ""),
        (Duration(100), "10ms", "bad-value", ""),
        (Duration(1, 5_000), "6s", "bad-value", ""),
        (Duration(), "-1", "bad-value", ""),
        (Size(), "10XB", "bad-value", ""),
        (Size(1024), "1", "bad-value", ""),
        (RateKind(), "5", "wrong-type", ""),
        (RateKind(), "0/s", "bad-value", ""),
        (ListOf(Integer()), "1", "wrong-type", "brackets"),
        (ListOf(Integer(), least=1), "[]", "bad-value", ""),
        (MapOf(Text(), Integer(), least=1), "{}", "bad-value", ""),
        (MapOf(Text(), Integer()), "[1]", "wrong-type", ""),
        (OneOf(scalar=Choice("tcp"), off=True), "true", "wrong-type", ""),
        (OneOf(mapping=Struct("")), "x", "wrong-type", ""),
        (OneOf(mapping=Struct("")), "[]", "wrong-type", ""),
        (Struct("", Field("a", Integer())), "a", "wrong-type", "a"),
        (Anything(), "0x10", "bad-value", "quote"),
        (Anything(), '"a\\0"', "unsafe-text", ""),
    ],
)
def test_bad_values(kind, text, code, hint):
    value, problems = values_of(kind, text)
    assert value is INVALID
    assert [problem.code for problem in problems] == [code]
    assert hint in problems[0].hint
    assert problems[0].path == ("v",)
    if text:
        assert problems[0].location == ("f.yaml", 1, 4)


def test_a_leading_zero_is_one_problem():
    for kind in (Integer(), Duration(), Size()):
        value, problems = values_of(kind, "010")
        assert (value, [problem.code for problem in problems]) == (INVALID, ["leading-zero"])


PAIR = Struct(
    "a pair",
    Field("left", Integer(), 1, "left", required=True, instead_of=("port",)),
    Field("right", Integer(), 2),
    Field("middle", Integer()),
    groups=(Group(("right", "middle"), least=0),),
)


def test_struct_reads_what_is_written_and_fills_the_rest():
    values, problems = values_of(PAIR, "{left: 5, x-note: [anything]}")
    assert (values, problems) == ({"left": 5}, [])
    assert PAIR.filled(values) == {"left": 5, "right": 2, "middle": None}
    assert PAIR.filled({"left": INVALID})["left"] == 1


@pytest.mark.parametrize(
    ("text", "code", "column", "hint"),
    [
        ("{lefft: 1}", "unknown-key", 5, "did you mean 'left'?"),
        ("{port: 1}", "unknown-key", 5, "lbgen calls it 'left'"),
        ("{left: 1, zzzz: 1}", "unknown-key", 14, "known keys: left, right"),
        ("{right: 1}", "missing-key", 4, "left"),
        ("{left: 1, right: 1, middle: 2}", "conflicting-keys", 24, ""),
        ("{left: x}", "wrong-type", 11, ""),
    ],
)
def test_struct_problems_are_placed(text, code, column, hint):
    _, problems = values_of(PAIR, text)
    assert [(problem.code, problem.location.column) for problem in problems] == [(code, column)]
    assert hint in problems[0].hint


def test_every_problem_of_a_mapping_is_reported():
    _, problems = values_of(PAIR, "{left: x, right: y, middle: z, a: 1, b: 2}")
    assert [problem.location.column for problem in problems] == [11, 21, 32, 35, 41, 24]


def test_keys_of_a_map_are_checked_as_keys():
    values, problems = values_of(MapOf(Text(pattern="[a-z]+"), Integer()), "{A: 1, b: x}")
    assert values == {"b": INVALID}
    assert [(problem.code, problem.on_key, problem.location.column) for problem in problems] == [
        ("bad-value", True, 5),
        ("wrong-type", False, 14),
    ]


def test_variants_take_the_keys_of_the_named_one():
    kind = Variants(
        "name",
        Choice("one", "two", aliases={"uno": "one"}),
        {
            "one": Struct("", Field("name", Choice("one", aliases={"uno": "one"})), Field("a", Integer())),
            "two": Struct("", Field("name", Choice("two")), Field("b", Integer())),
        },
    )
    assert values_of(kind, "uno") == ({"name": "one"}, [])
    assert values_of(kind, "{a: 1, name: uno}") == ({"name": "one", "a": 1}, [])
    assert [problem.code for problem in values_of(kind, "{name: two, a: 1}")[1]] == ["unknown-key"]
    assert [problem.code for problem in values_of(kind, "{a: 1}")[1]] == ["missing-key"]
    assert [problem.code for problem in values_of(kind, "{name: three}")[1]] == ["bad-value"]


def test_messages_are_one_printable_line_whatever_was_written():
    hostile = '"\\n\\u202e\\0' + "x" * 5000 + '"'
    for kind in (Text(), Integer(), Boolean(), Choice("a"), Duration(), Size(), PAIR, ListOf(Integer())):
        for problem in values_of(kind, hostile)[1]:
            assert problem.message.isprintable()
            assert len(problem.message) < 400
    for text in ('{"a\\nb": 1}', "{" + "k" * 1000 + ": 1}"):
        for problem in values_of(PAIR, text)[1]:
            assert problem.message.isprintable()
            assert len(problem.message) < 400
