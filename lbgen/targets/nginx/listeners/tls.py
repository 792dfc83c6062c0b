"""TLS to clients.

Profiles are those of Mozilla's server side TLS guideline, revision 5.7 (2023-07): *modern* is TLS 1.3
alone, *intermediate* has TLS 1.2 with the guideline's ECDHE suites. The DHE suites are left out: they need a
file of Diffie-Hellman parameters, and every client of the profile has ECDHE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.tls_profiles import INTERMEDIATE_CIPHERS
from lbgen.targets.nginx.language.quoting import quote
from lbgen.targets.nginx.views import NOTHING, Pair, ServerTls
from lbgen.targets.spec import Syntax

if TYPE_CHECKING:
    from lbgen.model import ListenerTls

HSTS = Pair(Syntax("Strict-Transport-Security"), Syntax("max-age=63072000"))
"""Two years, the guideline's."""


def server_tls(tls: ListenerTls | None) -> ServerTls | None:
    """Return a listener's TLS; `limits` has refused a directory of certificates."""
    if tls is None:
        return None
    modern = tls.profile == "modern"
    certificate = tls.bundle or tls.certificate or ""
    return ServerTls(
        certificate=quote(certificate),
        key=quote(tls.bundle or tls.key or certificate),
        protocols=Syntax("TLSv1.3" if modern else "TLSv1.2 TLSv1.3"),
        ciphers=NOTHING if modern else Syntax(INTERMEDIATE_CIPHERS),
        client_ca=quote(tls.client_ca) if tls.client_ca else NOTHING,
    )
