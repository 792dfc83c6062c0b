"""Every rule of the audit by its code: what runs, what the reference documents, what the tests go through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.audit.rules.balancing import RULES as BALANCING
from lbgen.audit.rules.buffers import RULES as BUFFERS
from lbgen.audit.rules.exposure import RULES as EXPOSURE
from lbgen.audit.rules.health import RULES as HEALTH
from lbgen.audit.rules.limits import RULES as LIMITS
from lbgen.audit.rules.names import RULES as NAMES
from lbgen.audit.rules.streams import RULES as STREAMS
from lbgen.audit.rules.times import RULES as TIMES
from lbgen.audit.rules.trust import RULES as TRUST
from lbgen.audit.rules.versions import RULES as VERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.audit.rule import AuditRule

THEMES: Mapping[str, tuple[AuditRule, ...]] = {
    "Streams": STREAMS,
    "Time, retries, reloads": TIMES,
    "Balancing": BALANCING,
    "Health": HEALTH,
    "Sizes": BUFFERS,
    "Names and paths": NAMES,
    "Confidentiality": EXPOSURE,
    "Trust": TRUST,
    "Limits": LIMITS,
    "Versions": VERSIONS,
}
"""Title of a theme -> its rules, in the order in which they run and are documented."""

AUDIT_RULES: Mapping[str, AuditRule] = {rule.code: rule for rules in THEMES.values() for rule in rules}
