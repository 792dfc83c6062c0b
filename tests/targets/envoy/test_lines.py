"""YAML that no value can break out of."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from lbgen.targets.envoy.guards.rates import Bound, _bucket
from lbgen.targets.envoy.language.words import duration
from lbgen.targets.envoy.language.yaml_lines import escape_format, lines, quote, quote_lua
from lbgen.units import Rate

TEXTS = some.text(some.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]), max_size=40)
TREES = some.recursive(
    TEXTS | some.booleans() | some.integers(-1000, 10**12),
    lambda inner: (
        some.lists(inner, min_size=1, max_size=4)
        | some.dictionaries(TEXTS.filter(lambda key: not key.startswith("#")), inner, min_size=1, max_size=4)
    ),
    max_leaves=20,
)


@given(some.dictionaries(some.sampled_from("abc"), TREES, min_size=1))
def test_every_tree_is_read_as_it_was(tree: dict[str, object]) -> None:
    assert yaml.safe_load("\n".join(lines(tree))) == tree


@pytest.mark.parametrize(
    "text", ["yes", "No", "null", "1", "1e3", "0x1", "-", "# x", "a: b", "", "'", '"', "%A"]
)
def test_words_that_are_something_else_in_yaml_stay_texts(text: str) -> None:
    assert yaml.safe_load(quote(text)) == text


def test_control_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="control"):
        quote("a\x00b")


def test_comments_stand_above_what_they_are_about() -> None:
    assert lines({"a": [{"#": "why", "b": 1}], "#x": "then", "c": 2}) == (
        "a:", "  # why", "  - b: 1", "# then", "c: 2",
    )  # fmt: skip


def test_texts_of_lua() -> None:
    assert quote_lua('a"\\\n') == '"a\\"\\\\\\010"'


def test_commands_of_formats_are_escaped() -> None:
    assert escape_format("100%REQ(x)%") == "100%%REQ(x)%%"


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0s"), (1, "0.001s"), (1_500, "1.5s"), (600_000, "600s")]
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    "rate", [Rate(1, 1), Rate(600, 60), Rate(7, 60), Rate(1000, 1), Rate(1, 3600), Rate(999, 3600)]
)
def test_buckets_fill_at_the_rate_and_not_too_often(rate: Rate) -> None:
    bucket = _bucket(Bound("x", "ip", rate, 10))
    seconds = float(bucket["fill_interval"].removesuffix("s"))
    assert seconds >= 0.05
    assert bucket["tokens_per_fill"] / seconds == pytest.approx(rate.requests / rate.seconds, rel=0.001)
    assert bucket["max_tokens"] >= 11
