"""Where Prometheus reads: the balancers, the engines, the agent, and the certificates of listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lbgen.engines import ENGINES
from lbgen.fleet.rules.rule import is_everywhere, is_loopback
from lbgen.model import State
from lbgen.strategies.kv_cache import kv_of
from lbgen.targets.telling import told_by
from lbgen.units import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.manifests.order import Order
    from lbgen.model import Listener, Metrics, Pool

AGENT_PORT = 9100
"""Where the documentation lets `lbgen agent --status` listen."""
EXPORTER = "127.0.0.1:9115"
"""Where the blackbox exporter listens unless told otherwise."""
MODULE = "lbgen_certificate"
"""The blackbox exporter's module that makes a TLS connection."""
PASSWORD_FILE = "secrets/metrics-password"  # noqa: S105 - a path
BALANCER, ENGINE, AGENT, CERTIFICATE = "balancer", "engine", "agent", "certificate"
"""The label `role` of what is read."""

Job = dict[str, Any]


class Scrapes(NamedTuple):
    """The jobs, and what to know about them, one sentence each."""

    jobs: tuple[Job, ...]
    notes: tuple[str, ...]


def scrapes(order: Order, metrics: Metrics) -> Scrapes:
    """Return what is read for one target of a fleet."""
    jobs: list[Job] = [_balancers(order, metrics)]
    pages = told_by(order.target).pages(order.fleet)
    jobs += [_page(jobs[0], name, path) for name, path in pages.items()]
    notes = list(_notes(order, metrics))
    for pool in order.fleet.pools:
        job = _engine(order, pool)
        if job is not None:
            jobs.append(job)
    agent = _agent(order)
    if agent is not None:
        jobs.append(agent)
        where = " and ".join(agent["static_configs"][0]["targets"])
        notes.append(f"The agent is read at {where}: start it with --status.")
    certificates = _certificates(order)
    if certificates is not None:
        jobs.append(certificates)
        notes.append(
            f"Certificates are read by the blackbox exporter at {EXPORTER}: start it with "
            "--config.file=blackbox.yml."
        )
    return Scrapes(tuple(jobs), tuple(notes))


def blackbox() -> dict[str, Any]:
    """Return the blackbox exporter's configuration: when a certificate ends is told of any, valid or not."""
    tls = {"insecure_skip_verify": True}
    return {
        "modules": {
            MODULE: {"prober": "tcp", "timeout": "5s", "tcp": {"tls": True, "tls_config": tls}},
        }
    }


def has_certificates(order: Order) -> bool:
    """Tell whether a listener has a certificate that can be read."""
    return any(listener.tls and not listener.accept_proxy for listener in order.fleet.listeners)


def _reached(order: Order, bind: Address) -> dict[str, str]:
    """Return the addresses at which a bind of every balancer is reached, with the balancers' names."""
    peers = order.fleet.balancers.peers
    if not is_everywhere(bind.host) or not peers:
        host = "127.0.0.1" if is_everywhere(bind.host) else bind.host
        return {str(bind._replace(host=host)): ""}
    return {str(Address(peer.host, bind.port)): name for name, peer in peers.items()}


def _notes(order: Order, metrics: Metrics) -> Iterator[str]:
    bind = metrics.binds[0]
    if is_everywhere(bind.host) and not order.fleet.balancers.peers:
        yield (
            f"The fleet does not say at which addresses its balancers are reached: {order.target} is read "
            f"at 127.0.0.1:{bind.port}."
        )
    elif is_loopback(bind.host):
        yield f"Only a Prometheus on the balancer's own machine can read {bind}."
    if metrics.password is not None and metrics.password.kind == "env":
        yield (
            f"The balancers ask for a password: put that of {metrics.password} into {PASSWORD_FILE} beside "
            "prometheus.yml, for Prometheus alone to read."
        )
    for listener in order.fleet.listeners:
        if listener.tls and listener.accept_proxy:
            yield f"Listener {listener.name}: the certificate is not read, for it expects the PROXY protocol."
    for pool in order.fleet.pools:
        told = ENGINES[pool.engine].metrics
        if told is not None and told.needs:
            yield f"Pool {pool.name}: the engines tell their metrics only with {told.needs}."
        if pool.discover is not None and pool.discover.dns:
            yield f"Pool {pool.name}: engines are found by DNS, and go by their addresses in place of names."


def _balancers(order: Order, metrics: Metrics) -> Job:
    fleet = order.fleet
    reached = _reached(order, metrics.binds[0])
    job: Job = {"job_name": f"{fleet.name}-{order.target}"}
    if metrics.user is not None and metrics.password is not None:
        kept = metrics.password
        path = kept.reference if kept.kind == "file" else PASSWORD_FILE
        job["basic_auth"] = {"username": metrics.user, "password_file": path}
    job["static_configs"] = [
        {
            "targets": [where],
            "labels": {"fleet": fleet.name, "role": BALANCER} | ({"balancer": name} if name else {}),
        }
        for where, name in reached.items()
    ]
    told = told_by(order.target)
    if told.pool_label:
        pools = "|".join(pool.name.replace(".", "[.]") for pool in fleet.pools)
        job["metric_relabel_configs"] = [
            {"source_labels": [told.pool_label], "regex": f"({pools})", "target_label": "pool"},
            *(
                {
                    "source_labels": list(one.labels),
                    "regex": one.regex,
                    "target_label": "server",
                    "replacement": one.replacement,
                }
                for one in told.relabels(fleet)
            ),
        ]
    return job


def _page(balancers: Job, name: str, path: str) -> Job:
    """Return the job that reads a further page of the balancers."""
    read = [{**one, "labels": {**one["labels"], "role": name}} for one in balancers["static_configs"]]
    asked = {key: balancers[key] for key in ("basic_auth",) if key in balancers}
    own = {"job_name": f"{balancers['job_name']}-{name}", "metrics_path": path}
    return own | asked | {"static_configs": read}


def _engine(order: Order, pool: Pool) -> Job | None:
    metrics = ENGINES[pool.engine].metrics
    if metrics is None:
        return None
    labels = {"fleet": order.fleet.name, "role": ENGINE, "pool": pool.name}
    job: Job = {"job_name": f"{order.fleet.name}-{pool.name}", "metrics_path": metrics.path}
    if pool.tls is not None:
        tls = {"ca_file": pool.tls.ca, "server_name": pool.tls.server_name,
               "cert_file": pool.tls.certificate, "key_file": pool.tls.key}  # fmt: skip
        job["scheme"] = "https"
        job["tls_config"] = {key: value for key, value in tls.items() if value}
        if not pool.tls.verify:
            job["tls_config"]["insecure_skip_verify"] = True
    if pool.discover is not None and pool.discover.dns:
        found = {"names": [pool.discover.dns], "type": "A", "port": metrics.port or pool.discover.port}
        named = [{"target_label": name, "replacement": value} for name, value in labels.items()]
        job["dns_sd_configs"] = [found]
        job["relabel_configs"] = [*named, {"source_labels": ["__address__"], "target_label": "server"}]
        return job
    job["static_configs"] = [
        {
            "targets": [str(server.address._replace(port=metrics.port or server.address.port))],
            "labels": {**labels, "server": server.name}
            | ({} if server.state is State.UP else {"state": server.state.value}),
        }
        for server in pool.servers
    ]
    return job if pool.servers else None


def _agent(order: Order) -> Job | None:
    by = next(filter(None, map(kv_of, order.fleet.pools)), None)
    if by is None:
        return None
    own = is_loopback(by.agent_host)  # an agent beside each balancer
    reached = _reached(order, Address("*" if own else by.agent_host, AGENT_PORT))
    labels = {"fleet": order.fleet.name, "role": AGENT}
    return {
        "job_name": f"{order.fleet.name}-agent",
        "static_configs": [{"targets": list(reached), "labels": labels}],
    }


def _certificates(order: Order) -> Job | None:
    if not has_certificates(order):
        return None
    return {
        "job_name": f"{order.fleet.name}-certificates",
        "metrics_path": "/probe",
        "params": {"module": [MODULE]},
        "static_configs": [
            {
                "targets": [where],
                "labels": {"fleet": order.fleet.name, "role": CERTIFICATE, "listener": listener.name}
                | ({"host": host, "__param_hostname": host} if host else {}),
            }
            for listener in order.fleet.listeners
            if listener.tls and not listener.accept_proxy
            for host in _hosts(listener)
            for where in _reached(order, listener.binds[0])
        ],
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {"source_labels": ["__address__"], "target_label": "instance"},
            {"target_label": "__address__", "replacement": EXPORTER},
        ],
    }


def _hosts(listener: Listener) -> tuple[str, ...]:
    """Return the names that certificates are asked for by; an empty one where the listener has none."""
    return tuple(host.replace("*", "probe") for host in listener.hosts) or ("",)
