"""What Envoy can do, by version: data, each entry with its source.

"Seen" means run on the program (1.36.4, 1.38.3, 1.40.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.vocabulary import Feature

FEATURES: Mapping[str, Feature] = {}
