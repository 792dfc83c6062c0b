"""The tables of engines and strategies hold together."""

from __future__ import annotations

import pytest

from lbgen.engines import ENGINE_ALIASES, ENGINES
from lbgen.fields import Choice
from lbgen.fleet.schema.pool import STRATEGY
from lbgen.strategies.registry import ALIASES, DEFAULT_STRATEGY, STRATEGIES
from tests.fleet.reading import values_of


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_engines(engine):
    assert engine.sources
    assert (engine.health_path in engine.health_paths) == (engine.health_path is not None)
    assert not {"/v1/models", "/api/tags"} & set(engine.health_paths), "answers while no model can"
    assert engine.keep_alive is None or engine.idle_timeout < engine.keep_alive
    assert engine.metrics is None or engine.metrics.path.startswith("/")


def test_every_engine_of_the_contract_is_there():
    named = "vllm sglang tgi llamacpp ollama triton trtllm litellm tei openai http"
    assert list(ENGINES) == named.split()
    assert set(ENGINE_ALIASES.values()) <= ENGINES.keys()
    assert not ENGINE_ALIASES.keys() & ENGINES.keys()


def test_every_strategy_of_the_contract_is_there():
    assert set(STRATEGIES) == {
        "round_robin", "least_conn", "random_two", "session", "prefix", "kv_cache", "pack",
    }  # fmt: skip
    assert DEFAULT_STRATEGY == "least_conn"


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_strategies(strategy):
    assert strategy.summary
    assert strategy.advice.endswith(".")
    assert strategy.needs <= {"session", "prefix", "kv"}
    for parameter in strategy.parameters:
        assert parameter.doc
        if parameter.default is not None:
            assert not isinstance(parameter.kind, Choice) or parameter.default in parameter.kind.values


@pytest.mark.parametrize(
    "alias", ["leastconn", "least-connections", "roundrobin", "p2c", "power_of_two", "first"]
)
def test_aliases_become_canonical(alias):
    assert values_of(STRATEGY, alias) == ({"name": ALIASES[alias]}, [])
    assert values_of(STRATEGY, f"{{name: {alias}}}") == ({"name": ALIASES[alias]}, [])


def test_no_alias_stands_for_two_strategies():
    spellings = [name for strategy in STRATEGIES.values() for name in (strategy.name, *strategy.aliases)]
    assert len(spellings) == len(set(spellings))
