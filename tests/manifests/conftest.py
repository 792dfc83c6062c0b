"""The command line in the test's process."""

from tests.cli.conftest import fake_program, lbgen, smallest

__all__ = ["fake_program", "lbgen", "smallest"]
