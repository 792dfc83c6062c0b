"""What can go wrong in the lab."""

from lbgen.problems import LbgenError


class RigError(LbgenError):
    """Containers cannot be had, or one of them did not start; the text has the program's own words."""
