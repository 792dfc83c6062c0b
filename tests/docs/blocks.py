"""The fenced blocks of a page, and what has to come of each.

A block with a title is a file. A ``sh`` block is run, and a ``text`` or ``json`` block right behind it is
what it prints, ``...`` standing for anything. A comment in front of a block says more: ``<!-- exits 1 -->``
(for a fleet, the code of its check), ``<!-- overlay -->`` (no whole fleet), ``<!-- not run: REASON -->``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

FENCE = re.compile(
    r"(?:^[ ]*<!-- (?P<note>[^\n]*) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w+)(?:[ ]title=\"(?P<title>[^\"\n]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
OUTPUTS = ("text", "json")


class Block(NamedTuple):
    """One fenced block."""

    line: int
    """Where it begins in the page."""
    language: str
    title: str
    note: str
    text: str
    output: str | None
    """What it prints, where the page shows it."""
    before: str
    """The words between the block in front of it and this one."""

    @property
    def code(self) -> int:
        """The exit code that the page promises."""
        return int(self.note.removeprefix("exits ")) if self.note.startswith("exits ") else 0

    @property
    def runs(self) -> bool:
        return self.language == "sh" and not self.note.startswith("not run: ")


def blocks(page: Path) -> list[Block]:
    """Return a page's blocks, outputs joined to the commands in front of them."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        block = _block(match, text, text[end : match.start()])
        if block.language in OUTPUTS and not block.title and found and not block.before.strip():
            assert found[-1].language == "sh", f"{page.name}:{block.line}: the output of no command"
            found[-1] = found[-1]._replace(output=block.text)
        else:
            found.append(block)
        end = match.end()
    return found


def _block(match: re.Match[str], text: str, before: str) -> Block:
    indent = match["indent"]
    lines = [line.removeprefix(indent) for line in match["text"].splitlines(keepends=True)]
    line = text.count("\n", 0, match.start("language")) + 1
    note = match["note"] or ""
    assert re.fullmatch(r"(|exits \d+|not run: .+|overlay)", note), f"line {line}: what is '{note}'?"
    return Block(line, match["language"], match["title"] or "", note, "".join(lines), None, before)


def fits(said: str, promised: str) -> bool:
    """Whether an output is the promised one; ``...`` is any text, on a line of its own any lines."""
    parts = re.split(r"^\.\.\.\n|\.\.\.", promised.rstrip("\n") + "\n", flags=re.MULTILINE)
    pattern = "(?s:.*?)".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, said.rstrip("\n") + "\n") is not None
