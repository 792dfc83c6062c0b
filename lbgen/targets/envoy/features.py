"""What Envoy can do, by version: data, each entry with its source.

"Seen" means run on the program (1.36.4, 1.38.3, 1.40.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.vocabulary import Feature, Version

if TYPE_CHECKING:
    from collections.abc import Mapping

FEATURES: Mapping[str, Feature] = {
    # Seen: the switch is not in the programs of 1.36.4 and 1.38.3. Without it a request that waits for its
    # connection is not counted, so that those of a burst all go to the server that had the least: with 64
    # streams, the most and the least loaded of 4 servers were 4 to 6 requests apart in the mean, 34 at most;
    # with it .2 and 7, with one worker or two (1.40.0).
    "counts_pending_requests": Feature(
        Version(1, 40), instead="random_two, which no burst sends to one server"
    ),
}


def has(version: Version, feature: str) -> bool:
    """Tell whether a version has a feature of the table."""
    return FEATURES[feature].in_version(version)
