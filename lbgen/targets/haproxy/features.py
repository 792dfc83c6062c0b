"""What HAProxy can do, by version: data, each entry with its source.

"Seen" means run on the program (2.6.12, 3.0.11, 3.2.26, some on 3.3.0 and 3.4.0); "documented"
means the change log or the manual at docs.haproxy.org.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.vocabulary import Feature, Version

if TYPE_CHECKING:
    from collections.abc import Mapping

FEATURES: Mapping[str, Feature] = {
    # Documented: set by default from 3.3 on. Before, it works in `defaults` alone (seen on 2.6).
    "abort_on_close_by_default": Feature(Version(3, 3), instead="option abortonclose in defaults"),
    # Seen: `retry-on 429` is an unknown keyword on 2.6.12, accepted on 3.0.11.
    "retry_on_429": Feature(
        Version(3, 0), instead="retry.on without 429: the client gets it, with its Retry-After"
    ),
    # Seen: unknown section on 2.6.12, fine on 3.0.11.
    "crt_store": Feature(Version(3, 0), instead="certificate and key in one file"),
    # Documented (2.8); seen: unknown on 2.6.12.
    "stick_counters": Feature(Version(2, 8), instead="at most three limits for a request"),
    # Seen: over HTTP/2 a prompt of 200 KB took 12 ms on 2.6.12 and 3.0.11, 4 ms with a window of 1 MiB, and
    # no longer than on NGINX on 3.2.26 as it is.
    "http2_window_grows": Feature(Version(3, 2), instead="tune.h2.initial-window-size"),
    # Documented (3.1); seen: unknown on 3.0.11, and 3.2.26 warns where a script is loaded without it.
    "lua_booleans": Feature(Version(3, 1), instead="nothing: older versions have one way only"),
    # Seen: 2.6.12 and 3.0.11 check a file with a relative path in `lua-load-per-thread` and do not start with
    # it ("cannot open"): all threads but the first look for it in the folder that they were started in.
    "lua_paths_of_threads": Feature(Version(3, 2), instead="lua-load"),
    # Seen: 2.6.12 passes a NUL in the value of a header on, 3.0.11 refuses it by itself.
    "refuses_nul": Feature(Version(3, 0), instead="a rule that looks for it"),
    # Seen: "status code 431 not handled" in http-error on 2.6.12 and 3.0.11, fine on 3.2.26.
    "status_431": Feature(Version(3, 2), instead="400, which HAProxy answers to headers that are too large"),
}


def has(version: Version, feature: str) -> bool:
    """Tell whether this version of HAProxy has the feature; raises `KeyError` for an unknown name."""
    return FEATURES[feature].in_version(version)
