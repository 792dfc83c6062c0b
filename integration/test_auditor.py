"""A configuration auditor, gixy-ng, finds nothing that matters in what is rendered for NGINX.

What it finds beyond that lies in a fleet: a server by a name of a public domain, with `dns.mode: static`, is
`missing_resolver` to it. NGINX before 1.27.3 can do nothing else, so the fleets here have internal names.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.render import render
from lbgen.secret_values import StandInSecrets

ROOT = Path(__file__).parent.parent
GOLDEN = sorted(path.parent.parent for path in ROOT.glob("tests/golden/*/nginx/nginx.conf"))
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))


def simplified(text: str) -> str:
    """Return a configuration without the expressions that read bodies, forms and queries.

    The auditor's own reader of expressions gives up on recursion, possessive quantifiers and atomic groups.
    Those are what keeps the expression from going back: a body of any content is read once.
    """
    text = re.sub(r'"~\(\*LIMIT_HEAP.*?" json;', '"~(?<lb_model_raw>m)" json;', text, flags=re.DOTALL)
    return re.sub(r'"~\(\?xsi?\) .*\(\*FAIL\).*"', _captures_alone, text)


def _captures_alone(found: re.Match[str]) -> str:
    names = dict.fromkeys(re.findall(r"\(\?<(\w+)>", found[0]))
    return f'"~{"".join(f"(?<{name}>m)" for name in names)}"'


def findings(path: Path) -> list[dict[str, object]]:
    """Return what the auditor finds of medium severity (`-ll`) or above.

    But for `try_files` without a cache of files: the ready probe looks once for a file that is not there.
    """
    command = [
        sys.executable, "-m", "gixy", "-ll", "--skips", "try_files_is_evil_too", "--format", "json", str(path)
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stderr, run.stderr
    assert run.stdout.strip(), run.stderr
    found: list[dict[str, object]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: folder.name)
def test_golden_files(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "nginx", tmp_path, dirs_exist_ok=True)
    main = tmp_path / "nginx.conf"
    main.write_text(simplified(main.read_text()))
    assert not findings(main)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples(example: Path, tmp_path: Path) -> None:
    loaded = load([Source(str(example), example.read_text())], environ={}, targets=("nginx",))
    assert loaded.fleet is not None, loaded.problems
    for file in render(loaded.fleet, "nginx", secrets=StandInSecrets()):
        place = tmp_path / file.path
        place.parent.mkdir(exist_ok=True)
        place.write_text(simplified(file.text))
    assert not findings(tmp_path / "nginx.conf")


def test_the_auditor_finds_what_is_wrong(tmp_path: Path) -> None:
    """Else nothing would be proved."""
    wrong = "events {} http { server { location / { proxy_pass http://$http_host; } } }"
    (tmp_path / "nginx.conf").write_text(wrong)
    assert findings(tmp_path / "nginx.conf")
