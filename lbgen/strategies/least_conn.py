"""The server with the fewest requests in flight."""

from lbgen.strategies.spec import MadeBy, Strategy

LEAST_CONN = Strategy(
    name="least_conn",
    aliases=("leastconn", "least_connections", "least_connection", "least_requests", "least_request"),
    summary="equalises the number of requests in flight",
    advice=(
        "The default: for requests of unknown cost, with one or two balancers. At a load of 0.9 the P99 "
        "of waiting is within a tenth of one central queue (0.88 s against 0.79 s). It needs counts that"
        " are fresh: with eight balancers that count apart random_two comes close, and with counts 2 s "
        "old it is worse than round_robin (lbgen's simulation)."
    ),
    parameters=(),
    chooser=MadeBy("counts", "LeastConn"),
)
