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
    "application-server": "reload-cuts-streams:5 h2-window:35 delayed-tokens:38",
    "chat-site": "request-header-buffer:3 buffered-streams:9 connection-closed:9 timeout-below-generation:9"
    " body-buffer:9 response-header-buffer:9 name-resolved-once:9",
    "four-inference-ports-from-environment": "name-resolved-once:6 does-not-start:6 request-header-buffer:11"
    " buffered-streams:14 connection-closed:14 body-limit:14 body-buffer:14 response-header-buffer:14",
    "middleware-in-tcp": "no-queue-bound:16",
    "model-by-script": "request-header-buffer:7 check-says-yes:9 buffered-streams:13 connection-closed:13"
    " response-header-buffer:13 upstream-name-as-host:13",
    "models-by-path": "name-resolved-once:3 name-resolved-once:4 name-resolved-once:5 stale-connections:3"
    " request-header-buffer:6 body-limit:17 body-buffer:17 response-header-buffer:17"
    " upstream-name-as-host:17",
    "names-of-another-api": "timeout-below-generation:4 timeout-below-generation:5 delayed-tokens:16"
    " abandoned-generations:16 no-queue-bound:16 model-not-checked:17 name-resolved-once:17",
    "tls-edge": "limit-by-address:3 name-resolved-once:5 request-header-buffer:7 limit-looks-broken:12"
    " cors-twice:14 buffered-streams:20 connection-closed:20 timeout-below-generation:20 body-limit:20"
    " body-buffer:20 upstream-name-as-host:20",
    "web-ui": "request-header-buffer:1 connection-closed:13 delayed-tokens:36 abandoned-generations:36"
    " model-not-checked:37",
}
"""Further ones, which the import's tests hold, and what is to be found in each by its public file's facts."""
IMPORTED = Path(__file__).parents[1] / "imports" / "fleets"


@pytest.mark.parametrize("name", sorted(REBUILT))
def test_what_is_reported_is_found_in_files_that_are_imported(name: str) -> None:
    (path,) = [one for one in (IMPORTED / name).iterdir() if one.name in {"nginx.conf", "haproxy.cfg"}]
    report = audit(read_configurations([str(path)]), {}, every=True)
    found = [f"{one.code}:{one.location.line}" for one in report.problems if one.location]
    assert sorted(found) == sorted(REBUILT[name].split())
