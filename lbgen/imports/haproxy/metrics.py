"""Sections that show statistics, as ``metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.draft import Said
from lbgen.imports.haproxy.listeners.binds import binds

if TYPE_CHECKING:
    from lbgen.imports.haproxy.reading import Reading


def read_metrics(reading: Reading) -> None:
    """Read the first section that serves statistics or Prometheus and nothing else."""
    for section in reading.configuration.all("frontend", "listen"):
        exporter = [
            line for line in section.own("http-request", "use-service") if "prometheus-exporter" in line.words
        ]
        traffic = section.servers() or section.own("use_backend") or section.last("default_backend")
        if (
            not (section.own("stats") or exporter)
            or traffic
            or reading.draft.metrics
            or not section.own("bind")
        ):
            continue
        found = list(binds(reading, section))
        if not found:
            continue
        reading.carry([*section.own("stats"), *exporter])
        reading.settled.add(section.title)
        bind = found[0]
        tree = {"bind": Said(bind.address, bind.place)}
        auth = section.last("stats", "auth")
        if auth is not None and len(auth.words) > 2:
            user = auth.words[2].partition(":")[0]
            reference = reading.draft.secret("metrics_password", f"the password of '{user}'", auth.location)
            tree["auth"] = Said({"user": user, "password": reference}, auth.location)
        elif not str(bind.address).startswith(("127.", "[::1]")):
            port = str(bind.address).rpartition(":")[2]
            tree["bind"] = Said(f"127.0.0.1:{port}", bind.place)
            reading.ledger.differs(bind.place, "it was open to everybody: only this host may ask now")
        for line in section.own("stats", "admin"):
            reading.ledger.left(line.location, "lbgen changes servers over the runtime socket")
        reading.draft.metrics.update(tree)
