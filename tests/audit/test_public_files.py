"""Files as people publish them, rebuilt from their facts: the audit finds what is reported of each, no more.

``# finds: CODE:LINE`` says what; severities and words are the rules' own tests' matter.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lbgen.audit import audit
from lbgen.readers.files import read_configurations

PUBLIC = sorted((Path(__file__).parent / "public").iterdir())


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_what_is_reported_is_found(path: Path) -> None:
    lines = re.findall(r"(?m)^# finds: (.*)", path.read_text())
    expected = re.findall(r"([a-z0-9-]+):(\d+)", " ".join(lines))
    report = audit(read_configurations([str(path)]), {})
    found = [(one.code, str(one.location.line)) for one in report.problems if one.location]
    assert report.notes == ()
    assert sorted(found) == sorted(expected)
