"""Every key of the fleet file that not every version of NGINX simply renders."""

from __future__ import annotations

from lbgen.targets.nginx.features import FEATURES
from lbgen.targets.spec import Row
from lbgen.vocabulary import Support

_D, _R = Support.DEGRADED, Support.REFUSED

SUPPORT: tuple[Row, ...] = (
    Row("pools.*.health", _D, "open-source NGINX has no active checks; passive_health works"),
    Row("pools.*.warmup", _D, "open-source NGINX has no slow start"),
    Row("pools.*.max_in_flight", _D, "the cap holds, with no queue behind it: all full is 503 at once"),
    Row("pools.*.queue", _D, "NGINX has no queue: a request that finds every server full gets 503 at once"),
    Row("pools.*.queue.order", _R, "NGINX has no queue to order"),
    Row("pools.*.passive_health.eject", _D, "the same number as window"),
    Row(
        "pools.*.retry.on", _D, "connect, reset and timeout are not told apart; a sent POST is never replayed"
    ),
    Row("pools.*.timeouts.first_byte", _D, "one timer serves first_byte and idle: the larger"),
    Row("pools.*.timeouts.idle", _D, "one timer serves first_byte and idle: the larger"),
    Row("pools.*.dns.mode", _R, "runtime: names are followed while NGINX runs", FEATURES["resolve"].since),
    Row("pools.*.strategy.session", _R, "not yet"),
    Row("pools.*.strategy.prefix", _R, "not yet"),
    Row("pools.*.strategy.kv_cache", _R, "weights of a running NGINX cannot be changed"),
    Row("pools.*.strategy.pack", _R, "NGINX has no method that fills servers in order"),
)
