"""Whatever the text, one directive with one argument comes back."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.targets.nginx.language.quoting import (
    MAX_WORD,
    Literals,
    escape_regex,
    header_name,
    quote,
    regex_word,
)
from tests.targets.nginx.parsed import parse

hostile = st.text(
    st.one_of(st.sampled_from(list("\"'\\;{}#$ \t\n~*`|%")), st.characters(codec="utf-8")), max_size=40
)


@given(hostile.filter(lambda text: "$" not in text and not any(ord(c) < 32 or ord(c) == 127 for c in text)))
def test_a_quoted_text_is_one_argument(text: str) -> None:
    parsed = parse(f"before 1;\nname {quote(text)};\nafter 2;\n")
    assert [entry["directive"] for entry in parsed] == ["before", "name", "after"]
    assert _unescaped(parsed[1]["args"]) == [text]


def _unescaped(arguments: list[str]) -> list[str]:
    # crossplane leaves the doubled backslash that NGINX reads as one.
    return [argument.replace("\\\\", "\\") for argument in arguments]


@given(hostile)
def test_a_refused_text_raises_and_never_changes_the_structure(text: str) -> None:
    try:
        word = quote(text)
    except ValueError:
        return
    assert len(parse(f"name {word};\n")) == 1


@given(
    st.text(
        st.one_of(
            st.sampled_from(list("\"'\\;{}#$\n")), st.characters(codec="utf-8", exclude_categories=["Cc"])
        )
    )
)
def test_a_literal_is_one_argument_without_a_stray_variable(text: str) -> None:
    literals = Literals()
    word = literals.word(text)
    lines = "".join(f"geo {name} {{ default {value}; }}\n" for name, value in literals.items())
    parsed = parse(f"{lines}name {word};\n")
    assert parsed[-1]["directive"] == "name"
    assert len(parsed[-1]["args"]) == 1
    assert "$" not in re.sub(r"\$\{?lb_text_\d+\}?", "", parsed[-1]["args"][0])


@given(hostile.filter(lambda text: text.isprintable() and "$" not in text))
def test_nginx_reads_back_what_was_quoted(text: str) -> None:
    """By NGINX's own rule: a backslash before a quote or a backslash is dropped (seen on 1.22.1)."""
    word = quote(text)
    inner = word[1:-1] if word[:1] in {"'", '"'} else word
    assert re.sub(r"\\([\"'\\])", r"\1", inner) == text


def test_a_long_text_is_cut_into_pieces_that_fit() -> None:
    literals = Literals()
    literals.word("é\\" * 5_000)
    assert all(len(value.encode()) < 4_096 for _, value in literals.items())


@pytest.mark.parametrize("text", ["a$b", "a\nb", "a\x00b", "a\x7fb", "x" * (MAX_WORD + 1)])
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"has|longer"):
        quote(text)


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a:b", "a\nb", "$x", "a{"])
def test_refuses_what_is_no_header(name: str) -> None:
    with pytest.raises(ValueError, match="header"):
        header_name(name)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()), hostile)
def test_an_escaped_regex_matches_the_text_alone(text: str, other: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python foresees nested sets, which PCRE has not
        pattern = re.compile(escape_regex(text))
    assert pattern.fullmatch(text)
    assert bool(pattern.fullmatch(other)) is (other == text)
    assert len(parse(f"name {regex_word('~^' + escape_regex(text) + '$')};\n")) == 1
