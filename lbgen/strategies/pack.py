"""Servers filled in order, so that the last ones can be switched off."""

from lbgen.strategies.spec import MadeBy, Strategy

PACK = Strategy(
    name="pack",
    aliases=("first", "fill", "bin_pack", "first_available"),
    summary="fills each server to its cap before it uses the next",
    advice=(
        "For fleets that are scaled down when demand is low: the rest of the servers stays idle. It "
        "needs max_in_flight, which says when a server is full, and ignores weights. Full servers are "
        "slower than half-full ones: not for the lowest latency."
    ),
    parameters=(),
    chooser=MadeBy("counts", "Pack"),
)
