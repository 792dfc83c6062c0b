"""What docs/simulation.md shows works."""

from __future__ import annotations

import re
from pathlib import Path

from lbgen.simulate.load.workload_file import read_workload
from lbgen.simulate.servers.step_times.profile_file import read_profile

GUIDE = Path(__file__).parents[2] / "docs" / "simulation.md"


def test_the_workload_and_the_profile_of_the_guide_can_be_read(tmp_path: Path) -> None:
    workload, profile = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name, text in (("load.yaml", workload), ("gpu.yaml", profile)):
        (tmp_path / name).write_text(text)
    load = read_workload(tmp_path / "load.yaml")
    assert (load.name, load.own_rate) == ("support", 12)
    assert read_profile(str(tmp_path / "gpu.yaml")).slots == 32
