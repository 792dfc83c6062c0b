"""The parts of a trial that need no program: mapping, speed, figures, JSON."""

import json
from pathlib import Path

import pytest

from lbgen.fleet.load import load
from lbgen.fleet.text.source import Source
from lbgen.lab.load import Lateness as DriverLateness
from lbgen.lab.load import Planned, Result
from lbgen.lab.trial.asked import speed
from lbgen.lab.trial.conduct import Measured, Trial
from lbgen.lab.trial.load.measure import Lateness, figures, load_stdev
from lbgen.lab.trial.load.sending import Sender
from lbgen.lab.trial.results import agreement
from lbgen.lab.trial.results.told import as_json_shape
from lbgen.lab.trial.stage import certificates, mapping
from lbgen.lab.trial.stage.places import images_of
from lbgen.model import Fleet
from lbgen.problems import LbgenError
from lbgen.simulate.answers.study import Question, answer
from lbgen.simulate.load.named import workload
from lbgen.simulate.runs.result import as_json
from lbgen.units import Address

SMALL = "pools: {chat: {servers: ['gpu-[0-1]:8000'], models: [llama-70b]}}\n"


def _fleet(text: str = SMALL) -> Fleet:
    loaded = load([Source("fleet.yaml", text)], environ={})
    assert loaded.fleet is not None, loaded.problems
    return loaded.fleet


def test_only_addresses_are_mapped() -> None:
    fleet = _fleet()
    servers = {"gpu-0": Address("127.0.0.1", 1001), "gpu-1": Address("127.0.0.1", 1002)}
    listeners = {bind: Address("127.0.0.1", 2001) for bind in mapping.binds_of(fleet)}
    moved = mapping.readdressed(fleet, fleet.pools[0], servers, listeners)
    assert [one.address for one in moved.pools[0].servers] == list(servers.values())
    assert moved.listeners[0].binds == (Address("127.0.0.1", 2001),)
    back = mapping.readdressed(
        moved,
        moved.pools[0],
        {one.name: one.address for one in fleet.pools[0].servers},
        {Address("127.0.0.1", 2001): fleet.listeners[0].binds[0]},
    )
    assert back == fleet


def test_requests_carry_what_the_route_asks_for() -> None:
    way = mapping.way_to(_fleet(), _fleet().pools[0])
    assert (way.path, way.model) == ("/v1/completions", "llama-70b")
    load = workload("fixed:prompt=8,output=3")
    sent = Sender(load, way, _fleet().pools[0], [{"A": "b"}]).planned(load.requests(1, 1.0, 2), 10.0)
    assert [(len(one.prompt), one.output_tokens, one.model) for one in sent] == [(32, 3, "llama-70b")] * 2
    assert sent[0].headers == {"A": "b"}


def test_absent_certificates_are_named_with_a_way_out(tmp_path: Path) -> None:
    tls = f"{{certificate: {tmp_path}/here.pem, key: {tmp_path}/gone.pem}}"
    fleet = _fleet(
        f"{SMALL}listeners: {{a: {{bind: '127.0.0.1:443', tls: {tls}, routes: [{{pool: chat}}]}}}}"
    )
    (tmp_path / "here.pem").write_text("x")
    absent = certificates.absent(fleet, fleet.pools[0], ["nginx", "haproxy"])
    assert absent == [f"{tmp_path}/gone.pem"]
    assert "--stand-ins" in certificates.refusal(absent)
    (tmp_path / "gone.pem").write_text("x")
    assert certificates.absent(fleet, fleet.pools[0], ["nginx", "haproxy"]) == []


def test_authorities_are_ours_and_need_not_be_here(tmp_path: Path) -> None:
    fleet = _fleet("pools: {chat: {servers: [a:1, a:2], tls: {ca: /nowhere/x.pem}}}\n")
    assert certificates.absent(fleet, fleet.pools[0], ["nginx"]) == []
    bundle = certificates.Bundle.make(tmp_path, fleet.pools[0])
    tls = certificates.ours(fleet, fleet.pools[0], bundle).pools[0].tls
    assert tls is not None
    assert (tls.ca, tls.server_name) == (str(bundle.path), "a")


def test_the_clock_is_as_fast_as_the_machine_holds() -> None:
    assert speed.choose(120.0, 1.0, 0.1, 60) == 10.0  # what is wanted: 120 s in 12
    assert speed.choose(1200.0, 30.0, 0.1, 60) == 2.0  # 60 requests a second
    assert speed.choose(1200.0, 0.1, 0.005, 60) == 10.0  # steps of half a millisecond
    assert speed.choose(1.0, 600.0, 0.1, 60) == pytest.approx(0.1)
    assert speed.carried_per_s(2) > 1


def test_spread_is_averaged_over_time() -> None:
    series = [[(0.0, 0), (1.0, 4)], [(0.0, 0), (3.0, 4)]]
    assert load_stdev(series, 0.0, 4.0) == pytest.approx(2 * 2 / 4)
    assert load_stdev(series, 2.0, 4.0) == pytest.approx(2 * 1 / 2)


def test_figures_are_in_the_gpus_seconds() -> None:
    good = Result(Planned(0.0, 5), 0.0, 0.1, 0.2, 0.4, 200, "a", tail=b"data: [DONE]\n\n")
    bad = Result(Planned(0.1, 5), 0.1, 0.1, None, 0.2, 503)
    run = figures([good, bad], {"a": [(10.0, 0), (10.1, 1), (10.3, 0)]}, 10.0, 10.4, 10.0)
    assert (run.requests, run.ok, run.errors) == (2, 1, {"503": 1})
    assert run.ttft_s.p50 == pytest.approx(2.0)
    assert run.e2e_s.p99 == pytest.approx(4.0)
    assert run.duration_s == pytest.approx(4.0)
    assert run.tokens_per_s == pytest.approx(5 / 4)
    assert run.servers[0].mean_in_flight == pytest.approx(0.5)
    assert (run.servers[0].requests, run.servers[0].max_in_flight) == (1, 1)


def test_json_has_the_shape_of_simulate() -> None:
    fleet = _fleet()
    question = Question(
        fleet, fleet.pools[0], ("least_conn",), ("nginx",), workload("bimodal"), 20, (1,), alone=True
    )
    found = answer(question)
    (run,) = found.rows[0].runs
    late = Lateness(DriverLateness(0.002, 0.003), 0.004)
    gaps = tuple(agreement.gaps(run, run, 0.0))
    trial = Trial(found, (Measured(found.rows[0], found.rows[0], late, gaps),), 2.0, "process")
    shape = json.loads(json.dumps(as_json_shape(trial)))
    assert shape["kind"] == "trial"
    (result,) = shape["results"]
    assert set(as_json(found.rows[0])) <= set(result)
    assert result["predicted"]["target"] == result["target"] == "nginx"
    assert result["late_s"]["driver"]["p99_s"] == 0.002
    assert all(gap["agrees"] for gap in result["agreement"])


def test_images_are_named_by_program() -> None:
    assert images_of(["nginx=nginx:1.30", "mock=me"]) == {"nginx": "nginx:1.30", "mock": "me"}
    for bad in ("nginx", "nginx=", "apache=x"):
        with pytest.raises(LbgenError, match="--image"):
            images_of([bad])
