"""What `render --as prometheus` and `--as grafana` write: files that Prometheus takes, of any fleet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.manifests import WATCHING, packed
from lbgen.manifests.order import Order
from lbgen.manifests.watching.grafana import PANELS
from lbgen.manifests.watching.signals import recordings
from lbgen.secret_values import StandInSecrets
from lbgen.targets.registry import TARGETS
from lbgen.targets.telling import MEANINGS, PREFIX_HITS
from tests.manifests.promtool import promtool

TESTS = Path(__file__).parents[1]
FLEETS = [*sorted(TESTS.glob("golden/*/fleet.yaml")), *sorted(TESTS.glob("fleets/*.yaml"))]
KINDS = """
name: kinds.of-engines
pools:
  vllm:
    engine: vllm
    strategy: %s
    max_in_flight: 8
    servers: [{address: "gpu-0:8000", max_in_flight: 3}, "gpu-1:8000"]
  sgl.ang: {engine: sglang, servers: ["10.0.0.2:30000", {address: "10.0.0.3:30000", name: old, state: drain}]}
  tgi: {engine: tgi, servers: ["gpu-2:3000"]}
  llama: {engine: llamacpp, servers: ["gpu-3:8080"]}
  ollama: {engine: ollama, servers: ["gpu-4:11434"]}
  triton: {engine: triton, servers: ["gpu-5:8000"]}
  trtllm: {engine: trtllm, servers: ["gpu-6:8000"]}
  tei: {engine: tei, servers: ["gpu-7:3000"]}
listeners:
  public:
    bind: "8443"
    hosts: ["*.example.org", llm.example.org]
    tls: {bundle: /etc/ssl/llm.pem}
    auth: none
    routes:
      - {path: /sgl, pool: sgl.ang}
      - {path: /tgi, pool: tgi}
      - {path: /llama, pool: llama}
      - {path: /ollama, pool: ollama}
      - {path: /triton, pool: triton}
      - {path: /trtllm, pool: trtllm}
      - {path: /tei, pool: tei}
      - {pool: vllm}
metrics: {bind: "8404", allow: [10.0.0.0/8]}
"""
METRICS = 'metrics: {bind: "127.0.0.1:8404"}'


def kinds(target: str, strategy: str = "") -> str:
    return KINDS % (strategy or ("kv_cache" if target == "haproxy" else "least_conn"))


def order_of(text: str, target: str, form: str = "prometheus") -> Order:
    loaded = load([Source("fleet.yaml", text)], environ={}, targets=(target,))
    assert loaded.fleet is not None, loaded.problems
    return Order(loaded.fleet, target, StandInSecrets(), form)


def written(text: str, target: str, form: str, folder: Path) -> dict[str, str]:
    """Write what a form makes of a fleet, and return its files."""
    made = packed(order_of(text, target, form))
    for file in made.files:
        (folder / file.path).write_text(file.text)
    return {file.path: file.text for file in made.files}


def jobs_of(text: str) -> dict[str, dict]:
    return {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", FLEETS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_prometheus_takes_the_files_of_any_fleet(path, target, tmp_path):
    text = path.read_text()
    if not re.search(r"^metrics:", text, re.MULTILINE):
        text += f"\n{METRICS}\n"
    loaded = load([Source("fleet.yaml", text)], environ={}, targets=(target,))
    if loaded.fleet is None:
        pytest.fail(str(loaded.problems))
    written(text, target, "prometheus", tmp_path)
    # It would look for the certificates that the fleet names.
    promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yml")
    assert "SUCCESS" in promtool("check", "rules", tmp_path / "rules.yml")


@pytest.mark.parametrize("target", TARGETS)
def test_prometheus_takes_the_files_of_all_engines(target, tmp_path):
    files = written(kinds(target), target, "prometheus", tmp_path)
    promtool("check", "config", tmp_path / "prometheus.yml")
    jobs = jobs_of(files["prometheus.yml"])
    assert jobs["kinds.of-engines-triton"]["static_configs"][0]["targets"] == ["gpu-5:8002"]
    assert jobs["kinds.of-engines-trtllm"]["metrics_path"] == "/prometheus/metrics"
    assert "kinds.of-engines-ollama" not in jobs
    assert ("kinds.of-engines-agent" in jobs) == (target == "haproxy")
    assert "Pool ollama: no metrics of Ollama are known to lbgen." in files["rules.yml"]
    assert "Pool llama: llama.cpp server does not tell: the time to the first token" in files["rules.yml"]
    assert (
        "Pool sgl.ang: the engines tell their metrics only with --enable-metrics." in files["prometheus.yml"]
    )
    [first, old] = jobs["kinds.of-engines-sgl.ang"]["static_configs"]
    assert "state" not in first["labels"]
    assert (old["labels"]["server"], old["labels"]["state"]) == ("old", "drain")


@pytest.mark.parametrize(("version", "counted"), [("2.6", False), ("2.8", True)])
def test_decisions_are_read_where_a_counter_is_left_for_them(version, counted, tmp_path):
    text = kinds("haproxy", "prefix") + f'targets: {{haproxy: {{version: "{version}"}}}}\n'
    files = written(text, "haproxy", "prometheus", tmp_path)
    job = jobs_of(files["prometheus.yml"]).get("kinds.of-engines-haproxy-decisions")
    assert (job is not None) == counted
    assert ("lbgen:pool_decisions:rate5m" in files["rules.yml"]) == counted
    assert ("does not tell: why requests" in files["rules.yml"]) == (not counted)
    if job is not None:
        assert job["metrics_path"] == "/decisions"
        assert [one["labels"]["role"] for one in job["static_configs"]] == ["decisions"]
    by_default = written(kinds("haproxy"), "haproxy", "prometheus", tmp_path)["rules.yml"]
    assert "why requests" not in by_default


def test_certificates_are_asked_for_by_each_host(tmp_path):
    files = written(kinds("haproxy"), "haproxy", "prometheus", tmp_path)
    job = jobs_of(files["prometheus.yml"])["kinds.of-engines-certificates"]
    hosts = [one["labels"]["__param_hostname"] for one in job["static_configs"]]
    assert hosts == ["probe.example.org", "llm.example.org"]
    assert job["params"]["module"][0] in yaml.safe_load(files["blackbox.yml"])["modules"]


def test_balancers_that_know_one_another_are_all_read(tmp_path):
    peers = 'balancers: {peers: {lb-0: "10.0.0.1:10000", lb-1: "10.0.0.2:10000"}}\n'
    files = written(kinds("haproxy") + peers, "haproxy", "prometheus", tmp_path)
    read = jobs_of(files["prometheus.yml"])["kinds.of-engines-haproxy"]["static_configs"]
    assert {one["targets"][0]: one["labels"]["balancer"] for one in read} == {
        "10.0.0.1:8404": "lb-0", "10.0.0.2:8404": "lb-1",
    }  # fmt: skip
    assert "does not say at which addresses" not in files["prometheus.yml"]


def test_where_balancers_are_is_not_made_up(tmp_path):
    files = written(kinds("haproxy"), "haproxy", "prometheus", tmp_path)
    assert "does not say at which addresses its balancers are reached" in files["prometheus.yml"]


@pytest.mark.parametrize(
    ("password", "path"), [("env:PW", "secrets/metrics-password"), ("file:/run/pw", "/run/pw")]
)
def test_the_password_is_read_by_prometheus_alone(password, path, tmp_path):
    metrics = f'metrics: {{bind: "127.0.0.1:8404", auth: {{user: u, password: "{password}"}}}}\n'
    text = re.sub(r"metrics:.*\n", metrics, kinds("nginx"))
    files = written(text, "nginx", "prometheus", tmp_path)
    job = jobs_of(files["prometheus.yml"])["kinds.of-engines-nginx"]
    assert job["basic_auth"] == {"username": "u", "password_file": path}
    assert ("env:PW" in files["prometheus.yml"]) == password.startswith("env:")


def test_servers_with_tls_are_checked_as_the_balancer_does(tmp_path):
    text = f"""
pools:
  chat:
    engine: vllm
    tls: {{ca: {tmp_path}/ca.pem, server_name: gpu.internal}}
    servers: [gpu-0:8000]
{METRICS}
"""
    (tmp_path / "ca.pem").write_text("")
    job = jobs_of(written(text, "haproxy", "prometheus", tmp_path)["prometheus.yml"])["fleet-chat"]
    assert job["scheme"] == "https"
    assert job["tls_config"] == {"ca_file": f"{tmp_path}/ca.pem", "server_name": "gpu.internal"}


def test_servers_that_a_name_stands_for_are_looked_up(tmp_path):
    text = f"""
pools:
  chat:
    engine: vllm
    discover: {{dns: vllm.svc, port: 8000}}
    dns: {{resolver: ["10.0.0.10:53"]}}
{METRICS}
"""
    files = written(text, "haproxy", "prometheus", tmp_path)
    promtool("check", "config", tmp_path / "prometheus.yml")
    job = jobs_of(files["prometheus.yml"])["fleet-chat"]
    assert job["dns_sd_configs"] == [{"names": ["vllm.svc"], "type": "A", "port": 8000}]
    assert {"target_label": "pool", "replacement": "chat"} in job["relabel_configs"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_dashboard_asks_for_what_is_recorded(target, tmp_path):
    files = written(kinds(target), target, "grafana", tmp_path)
    dashboard = json.loads(files["dashboard.json"])
    assert [panel["title"] for panel in dashboard["panels"]] == [
        *(one.title for one in PANELS),
        "What is not told",
    ]
    recorded = {rule.record for rule in recordings(order_of(kinds(target), target))}
    asked = set()
    for panel in dashboard["panels"]:
        for query in panel.get("targets", ()):
            names = set(re.findall(r"lbgen:[a-z_:0-9]+", query["expr"]))
            assert names <= recorded, panel["title"]
            asked |= names
    shown = {query.series for panel in PANELS for query in panel.queries}
    assert asked == recorded & shown


def test_each_series_is_shown_or_used(tmp_path):
    shown = {query.series for panel in PANELS for query in panel.queries}
    text = kinds("haproxy", "prefix") + 'targets: {haproxy: {version: "2.8"}}\n'
    rules = written(text, "haproxy", "prometheus", tmp_path)["rules.yml"]
    for name in MEANINGS:
        assert name in shown or rules.count(name) > 1, name


def test_what_nginx_does_not_tell_is_said(tmp_path):
    content = json.loads(written(kinds("nginx"), "nginx", "grafana", tmp_path)["dashboard.json"])["panels"]
    by_title = {panel["title"]: panel for panel in content}
    assert by_title["Errors by cause"]["type"] == "text"
    assert "errors a second by pool and cause" in by_title["What is not told"]["options"]["content"]


@pytest.mark.parametrize("form", sorted(WATCHING))
def test_it_stands_beside_what_it_watches(lbgen, tmp_path, form):
    (tmp_path / "fleet.yaml").write_text(
        f"pools: {{chat: {{engine: vllm, servers: [gpu-0:8000]}}}}\n{METRICS}\n"
    )
    words = ["render", "fleet.yaml", "-t", "haproxy", "-o", "out"]
    both = [words, [*words, "--as", form]]
    for one in (*both, *both):
        assert lbgen(*one).code == 0
    assert (tmp_path / "out/haproxy/haproxy.cfg").exists()
    assert list((tmp_path / "out/haproxy" / form).iterdir())
    for one in both:
        assert lbgen(*one, "--check").code == 0, "neither takes the other's files for its own"
    assert lbgen(*both[1], "--check", "--set", "pools.chat.servers=[gpu-1:8000]").code == 1


@pytest.mark.parametrize("form", sorted(WATCHING))
def test_a_fleet_without_metrics_is_refused(lbgen, smallest, form):
    ended = lbgen("render", smallest, "-t", "haproxy", "--as", form, "-o", "out")
    assert (ended.code, ended.out) == (2, "")
    assert 'add metrics: {bind: "127.0.0.1:8404"}' in ended.err
    added = lbgen(
        "render", smallest, "-t", "haproxy", "--as", form, "-o", "out", "--set", "metrics.bind=127.0.0.1:8404"
    )
    assert added.code == 0, added.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--as", "grafana", "--first-token", "2s"), "--first-token is only for --as prometheus"),
        (("--as", "prometheus", "--first-token", "soon"), "--first-token: "),
        (("--as", "prometheus", "--image", "haproxy=x"), "--image has no meaning with --as"),
        (("--as", "prometheus", "--part", "http"), "omit --part"),
    ],
)
def test_contradictions_are_refused(lbgen, smallest, words, said):
    metrics = ("--set", "metrics.bind=127.0.0.1:8404")
    ended = lbgen("render", smallest, "-t", "haproxy", "-o", "out", *metrics, *words)
    assert ended.code == 2
    assert said in ended.err


def test_one_dashboard_can_be_printed(lbgen, smallest):
    words = ("-t", "haproxy", "--set", "metrics.bind=127.0.0.1:8404", "--as", "grafana")
    assert json.loads(lbgen("render", smallest, *words).out)["title"] == "fleet behind HAProxy"


def test_an_engine_that_counts_found_and_computed_tokens_has_their_share() -> None:
    rules = {one.record: one.expr for one in recordings(order_of(kinds("haproxy"), "haproxy"))}
    (llama,) = [each for each in rules[PREFIX_HITS].split(" or ") if "llamacpp" in each]
    there, both = llama.split(" / ")
    assert "llamacpp:prompt_tokens_cached_total" in there
    assert "llamacpp:prompt_tokens_total" not in there
    assert both.startswith(f"({there} + ")
    assert "llamacpp:prompt_tokens_total" in both
