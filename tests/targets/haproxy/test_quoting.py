from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbgen.targets.haproxy.language.quoting import format_word, quote, text_word
from tests.targets.haproxy.parsed import words

HOSTILE = ["", "a b", "'", '"', "\\", "#", "$HOME", "${HOME}", "%[src]", "a'b'c", "'\\''", " if TRUE", "-i"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_one_literal_word(text: str) -> None:
    assert words(f"x {quote(text)} y") == ["x", text, "y"]


@given(text=st.text())
def test_any_text_is_one_literal_word_or_refused(text: str) -> None:
    try:
        word = quote(text)
    except ValueError:
        assert not text.isprintable()
        return
    assert words(f"x {word} y") == ["x", text, "y"]


@given(text=st.text(alphabet="%[]{}+Q'\\ a", min_size=1))
def test_a_log_format_finds_no_sample_in_a_text(text: str) -> None:
    (word,) = words(format_word(text))
    assert word.replace("%%", "") == text.replace("%", "")
    assert word.count("%") == 2 * text.count("%")


@given(text=st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_what_cannot_be_printed_is_written_by_its_bytes(text: str) -> None:
    word = text_word(text)
    assert word.isprintable()
    (read,) = words(word)
    # The reader of the tests gives escaped octets one character each.
    expected = "".join(c if c.isprintable() else c.encode().decode("latin-1") for c in text)
    assert read == expected


@pytest.mark.parametrize("text", ["a\nb", "a\0b", "\u2028", "x" * 9_000])
def test_what_no_line_can_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its text is for people
        quote(text)
