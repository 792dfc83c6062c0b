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


REBUILT = {
    "application-server": "delayed-tokens h2-window reload-cuts-streams",
    "chat-site": "body-buffer buffered-streams connection-closed request-header-buffer "
    "response-header-buffer timeout-below-generation",
    "four-inference-ports-from-environment": "body-buffer body-limit buffered-streams connection-closed "
    "request-header-buffer response-header-buffer",
    "middleware-in-tcp": "abandoned-generations balanced-by-connection check-says-yes delayed-tokens "
    "no-queue-bound",
    "model-by-script": "buffered-streams check-says-yes connection-closed request-header-buffer "
    "response-header-buffer",
    "models-by-path": "body-buffer body-limit request-header-buffer response-header-buffer stale-connections",
    "names-of-another-api": "abandoned-generations delayed-tokens model-not-checked no-queue-bound "
    "timeout-below-generation",
    "tls-edge": "body-buffer body-limit buffered-streams connection-closed limit-by-address "
    "request-header-buffer timeout-below-generation",
    "web-ui": "abandoned-generations connection-closed delayed-tokens model-not-checked "
    "request-header-buffer",
}
"""Further ones, which the import's tests hold, and the codes of what is found in each."""
IMPORTED = Path(__file__).parents[1] / "imports" / "fleets"


@pytest.mark.parametrize("name", sorted(REBUILT))
def test_what_is_reported_is_found_in_files_that_are_imported(name: str) -> None:
    (path,) = [one for one in (IMPORTED / name).iterdir() if one.name in {"nginx.conf", "haproxy.cfg"}]
    report = audit(read_configurations([str(path)]), {}, every=True)
    assert sorted({one.code for one in report.problems}) == REBUILT[name].split()
