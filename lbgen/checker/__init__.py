"""Checking rendered files with the real programs, where the fleet does not live too."""

from lbgen.checker.check import check_target
from lbgen.checker.programs import Choice, parse_choice
from lbgen.checker.spec import Verdict

__all__ = ["Choice", "Verdict", "check_target", "parse_choice"]
