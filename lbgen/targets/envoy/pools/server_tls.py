"""TLS from Envoy to the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.tls_profiles import SYSTEM_CA
from lbgen.targets.envoy.language.words import Node, data, typed

if TYPE_CHECKING:
    from lbgen.model import Pool, ServerTls
    from lbgen.targets.envoy.assembly import Assembly

_PACKAGE = "envoy.extensions.transport_sockets.tls.v3"


def transport(made: Assembly, pool: Pool) -> Node:
    """Return a cluster's transport socket; nothing without TLS."""
    tls = pool.tls
    if tls is None:
        return {}
    common: Node = {"alpn_protocols": ["h2" if pool.protocol != "http" else "http/1.1"]}
    if tls.verify:
        common["validation_context"] = _validation(made, tls)
    if tls.certificate:
        chain = data(made.path(tls.certificate))
        key = data(made.path(tls.key or tls.certificate))
        common["tls_certificates"] = [{"certificate_chain": chain, "private_key": key}]
    context = typed(f"{_PACKAGE}.UpstreamTlsContext", common_tls_context=common)
    if tls.server_name:
        context["sni"] = tls.server_name
    else:
        # Each server's own host is asked for, and compared with its certificate.
        context["auto_host_sni"] = True
        context["auto_sni_san_validation"] = tls.verify
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


def verified(made: Assembly) -> Node:
    """Return the transport socket to a server whose own name its certificate has to have."""
    common = {"validation_context": {"trusted_ca": data(made.path(SYSTEM_CA))}}
    context = typed(f"{_PACKAGE}.UpstreamTlsContext", common_tls_context=common)
    context |= {"auto_host_sni": True, "auto_sni_san_validation": True}
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


def _validation(made: Assembly, tls: ServerTls) -> Node:
    # Not `system_root_certs`, beside which Envoy compares no server's own name.
    node: Node = {"trusted_ca": data(made.path(tls.ca) if tls.ca else SYSTEM_CA)}
    if tls.server_name:
        matcher = {"san_type": "DNS", "matcher": {"exact": tls.server_name}}
        node["match_typed_subject_alt_names"] = [matcher]
    return node
