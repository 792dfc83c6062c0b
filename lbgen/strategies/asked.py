"""What strategies ask for that targets have to make ready."""

from typing import TYPE_CHECKING

from lbgen.strategies.prefix import prefix_of
from lbgen.strategies.session import session_of

if TYPE_CHECKING:
    from lbgen.model import Pool


def reads_body(pool: "Pool") -> bool:
    """Tell whether a pool's servers are chosen by something in the body of a request."""
    session = session_of(pool)
    return bool(session.body) if session else prefix_of(pool) is not None
