"""What NGINX open source can do, by version: data, each entry with its source.

"Seen" means run on the program (1.22.1, 1.26.3, 1.30.6); "documented" means the change log at
nginx.org/en/CHANGES. Distributions back-port, so a version is a floor and never a ceiling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.vocabulary import Feature, Version

if TYPE_CHECKING:
    from collections.abc import Mapping

FEATURES: Mapping[str, Feature] = {
    # Seen: unknown directive on 1.22.1, fine on 1.26.3, where `listen … http2` warns.
    "http2_directive": Feature(Version(1, 25, 1), instead="listen … http2"),
    # Documented (1.23.0): headers of one name are joined by a comma; seen: the first alone on 1.22.1.
    "joined_headers": Feature(Version(1, 23), instead="the first of headers with one name"),
    # Seen: a CONNECT is 405 on 1.30.6, and 400 before 1.27, which takes its target for a malformed one.
    "connect_target": Feature(Version(1, 27), instead="error_page 400"),
    # Seen on 1.30.6; on 1.22.1 and 1.26.3 the default server's protocols hold for all names.
    "own_protocols": Feature(Version(1, 30), instead="one tls.profile for all listeners of an address"),
    # Documented (1.27.3); seen: "invalid parameter" on 1.22.1 and 1.26.3, fine on 1.30.6.
    "resolve": Feature(
        Version(1, 27, 3),
        instead="dns.mode: static, and a reload of NGINX when an address changes (names are looked up then)",
    ),
    # Documented: js_shared_dict_zone in njs 0.8.0, which came with 1.25.1; seen: unknown to the njs
    # 0.7.9 of Debian 12, fine with 0.8.9 (1.26.3) and 1.0.2 (1.30.6).
    "njs_counts": Feature(Version(1, 25, 1), instead="max_in_flight"),
    # Documented (1.29.7), seen: `keepalive 0` is an invalid value before.
    "keepalive_off": Feature(Version(1, 29, 7), instead="no keepalive directive"),
    # Documented (1.29.6); seen: `learn` with `least_conn` and `max_conns` on 1.30.6.
    "sticky": Feature(Version(1, 29, 6), instead="hash … consistent"),
    # Documented (1.29.4); seen: accepted by 1.30.6.
    "http2_upstream": Feature(
        Version(1, 29, 4),
        instead="protocol: grpc for gRPC, or protocol: http where the servers speak HTTP/1.1",
    ),
}


def has(version: Version, feature: str) -> bool:
    """Tell whether this version of NGINX has the feature; raises `KeyError` for an unknown name."""
    return FEATURES[feature].in_version(version)
