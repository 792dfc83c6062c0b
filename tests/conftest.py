"""What all unit tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.no_skip import pytest_runtest_makereport  # noqa: F401 - a hook
from tests.turns import (  # noqa: F401 - hooks
    pytest_collection_modifyitems,
    pytest_runtest_protocol,
    pytest_sessionstart,
    pytest_xdist_auto_num_workers,
)

# How long an example takes says how busy the machine is.
settings.register_profile("lbgen", deadline=None)
settings.load_profile("lbgen")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the expected files of tests/golden"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError("--update-golden is refused under CI: a golden file is read by a person")


KEPT = ("LBGEN_NO_SKIP", "LBGEN_ALL")


@pytest.fixture(autouse=True, scope="session")
def _no_user_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests apart from the user's own environment."""
    for name in [name for name in os.environ if name.startswith("LBGEN_") and name not in KEPT]:
        if not name.startswith("LBGEN_TEST"):
            del os.environ[name]
    # pytest-xdist tells its processes of a terminal of 80 columns, to which tables would be folded.
    for name in ("GITHUB_ACTIONS", "COLUMNS", "LINES"):
        os.environ.pop(name, None)
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
