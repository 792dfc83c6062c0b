"""TLS from the clients to Envoy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.targets.common.tls_profiles import INTERMEDIATE_CIPHERS
from lbgen.targets.envoy.language.words import Node, data, typed

if TYPE_CHECKING:
    from lbgen.model import Listener
    from lbgen.targets.envoy.assembly import Assembly

_PACKAGE = "envoy.extensions.transport_sockets.tls.v3"


def tls_socket(made: Assembly, listener: Listener) -> Node:
    """Return a listener's transport socket."""
    tls = listener.tls
    if tls is None:
        raise ValueError("a listener without TLS")
    chain = tls.bundle or tls.certificate or ""
    key = tls.bundle or tls.key or chain
    pair = {"certificate_chain": data(made.path(chain)), "private_key": data(made.path(key))}
    least = "TLSv1_3" if tls.profile == "modern" else "TLSv1_2"
    parameters: Node = {"tls_minimum_protocol_version": least, "tls_maximum_protocol_version": "TLSv1_3"}
    if tls.profile != "modern":
        parameters["cipher_suites"] = INTERMEDIATE_CIPHERS.split(":")
    common: Node = {
        "tls_params": parameters,
        "tls_certificates": [pair],
        "alpn_protocols": ["h2", "http/1.1"] if listener.http2 else ["http/1.1"],
    }
    if tls.client_ca:
        common["validation_context"] = {"trusted_ca": data(made.path(tls.client_ca))}
    context = typed(f"{_PACKAGE}.DownstreamTlsContext", common_tls_context=common)
    if tls.client_ca:
        context["require_client_certificate"] = {"value": True}
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}
