"""The page of engines that were tried: a run replaces what it tried anew, and nothing else."""

from __future__ import annotations

from pathlib import Path

from integration.real_engines.outcomes import ENGINE, FAILED, PASSED, Outcome
from integration.real_engines.page import Tried, versions, write, write_predicted
from lbgen.engines import ENGINES

PAGE = Path(__file__).parents[2] / "docs" / "engines-tried.md"
VLLM = Tried("vllm", "1.0", "a wheel", "2026-01-01", {"nginx": "1.22.1"})
LLAMA = VLLM._replace(preset="llamacpp")
STREAMS, DRAIN = Outcome("streams", "nginx", PASSED, "a | b"), Outcome("a drain", ENGINE, FAILED, "cut")


def test_some_checks_are_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    write(page, VLLM, [STREAMS, DRAIN])
    write(page, LLAMA, [STREAMS])
    write_predicted(page, VLLM, ["All as foretold."])
    write(page, VLLM._replace(date="2026-01-02"), [DRAIN._replace(verdict=PASSED, detail="whole")])
    text = page.read_text()
    assert "| streams | nginx | passed | a &#124; b |\n| a drain | itself | passed | whole |\n" in text
    assert text.count("| streams |") == 2
    assert "cut" not in text
    assert text.index("## vLLM") < text.index("## llama.cpp") < text.index("All as foretold.")
    assert list(versions(text)) == [
        ("vLLM", "1.0", "2026-01-02"), ("llama.cpp server", "1.0", "2026-01-01"),
    ]  # fmt: skip


def test_nothing_of_another_version_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    write(page, VLLM, [STREAMS, DRAIN])
    write(page, VLLM._replace(version="1.1"), [STREAMS])
    assert "a drain" not in page.read_text()


def test_the_table_of_engines_says_which_were_tried() -> None:
    tried = {title: f"{version} on {day}" for title, version, day in versions(PAGE.read_text())}
    assert tried
    assert {engine.title: engine.tried for engine in ENGINES.values() if engine.tried} == tried
