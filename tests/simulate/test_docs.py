"""What docs/simulation.md shows works."""

from __future__ import annotations

import re
from pathlib import Path

from lbgen.simulate.load.workload_file import read_workload

GUIDE = Path(__file__).parents[2] / "docs" / "simulation.md"


def test_the_workload_of_the_guide_can_be_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    path = tmp_path / "load.yaml"
    path.write_text(text)
    load = read_workload(path)
    assert (load.name, load.own_rate) == ("support", 12)
