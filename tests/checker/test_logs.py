"""Where logs go, in the checker's eyes."""

from pathlib import Path

import pytest

from lbgen.checker.stand_ins import stand_in
from lbgen.checker.surroundings import Surroundings
from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source


def _to(text: str, tmp_path: Path, *, opens: bool) -> str:
    fleet = load([Source("f.yaml", f"pools: {{a: {{servers: ['a:1']}}}}\nlogs: {{to: '{text}'}}\n")]).fleet
    assert fleet is not None
    around = Surroundings(tmp_path, "/etc/x", in_container=False, resolve=False)
    return stand_in(fleet, "haproxy", around, opens=opens).logs.to


@pytest.mark.parametrize("opens", [True, False])
def test_a_name_of_a_log_host_is_not_looked_up(tmp_path: Path, opens: bool) -> None:
    # haproxy -c refuses one that it cannot resolve (seen on 2.6).
    assert _to("syslog:loghost:514", tmp_path, opens=opens).startswith("syslog:127.")


def test_a_log_file_is_only_moved_for_a_checker_that_opens_it(tmp_path: Path) -> None:
    assert _to("/var/log/x.log", tmp_path, opens=False) == "/var/log/x.log"
    assert _to("/var/log/x.log", tmp_path, opens=True).startswith(str(tmp_path))
