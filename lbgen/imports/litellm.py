"""LiteLLM's ``model_list`` as pools: deployments of one name are the servers of one pool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said, free_name
from lbgen.imports.servers import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.fleet.text.source import Document
    from lbgen.imports.draft import Draft, Tree
    from lbgen.imports.ledger import Ledger
    from lbgen.problems import Location

_ENGINES = {"hosted_vllm": "vllm", "vllm": "vllm", "ollama": "ollama", "ollama_chat": "ollama"}
"""By provider, the first part of ``litellm_params.model``, what the servers run."""
_STRATEGIES = {"least-busy": "least_conn", "simple-shuffle": "round_robin"}
_BASE = re.compile(r"(https?)://(?:([^/?\s]*)@)?([^/?@\s]+)(/[^@?\s]*)?(\?[^\s]*)?")
_OWN = frozenset({"model", "api_base", "weight", "max_parallel_requests"})


def read_litellm(name: str, document: Document, draft: Draft, ledger: Ledger) -> None:
    """Add the deployments of a LiteLLM configuration to a draft, and note what became of each setting."""
    whole = document.plain()
    for index, one in enumerate(whole.get("model_list") or ()):
        place = document.locate(("model_list", index))
        if place is not None and isinstance(one, dict):
            _deployment(one, place, draft, ledger)
    settings = whole.get("router_settings")
    router: dict[str, Any] = settings if isinstance(settings, dict) else {}
    wanted = router.get("routing_strategy", "simple-shuffle")
    for tree in draft.pools.values():
        if wanted in _STRATEGIES and len(tree.get("servers", ())) > 1:
            tree["strategy"] = Said(_STRATEGIES[wanted], beside=f"LiteLLM's {wanted}")
    for section in whole:
        place = document.locate((section,), on_key=True)
        if section != "model_list" and place is not None:
            ledger.expect(place, [section])
            known = section == "router_settings" and wanted in _STRATEGIES and len(router) == 1
            if known:
                ledger.carried(place)
            else:
                ledger.left(place, "only model_list has keys here")
    if draft.pools:
        _listener(draft, name)


def _deployment(one: Mapping[str, Any], place: Location, draft: Draft, ledger: Ledger) -> None:
    model = str(one.get("model_name", ""))
    ledger.expect(place, ["model_name", model])
    settings = one.get("litellm_params")
    settings = settings if isinstance(settings, dict) else {}
    base = _BASE.fullmatch(str(settings.get("api_base", "")))
    if base is None:
        told = "api_base" in settings
        why = (
            "its api_base is no address" if told else "it has no api_base: a provider of its own is no server"
        )
        ledger.left(place, why)
        return
    scheme, user, host, path, query = base.groups()
    address, reason = listed(host, 443 if scheme == "https" else 80)
    if address is None:
        ledger.left(place, reason)
        return
    ledger.carried(place)
    tree = _pool(draft, model, place)
    values = {key: settings[own] for own, key in _NUMBERS.items() if isinstance(settings.get(own), int)}
    tree["servers"].append(Said({"address": address, **values} if values else address, place))
    provider, _, served = str(settings.get("model", "")).partition("/")
    if provider in _ENGINES:
        tree["engine"] = Said(_ENGINES[provider], place)
    if scheme == "https":
        tree["tls"] = Said(value=True, place=place)
    if served and served != model:
        ledger.differs(place, f"LiteLLM asks the server for '{served}': let it serve '{model}'")
    if user is not None:
        ledger.left(
            place,
            ("servers receive the client's credentials: user and password of api_base are not imported"),
        )
    if (path or "/").rstrip("/") not in {"", "/v1"}:
        ledger.left(place, f"the path {path} of api_base is a route's 'add_prefix'")
    if query:
        ledger.left(place, "there is no key to add the query of api_base to requests")
    others = sorted(set(settings) - _OWN)
    if others:
        ledger.left(place, f"no key has: {', '.join(others)}")


_NUMBERS = {"weight": "weight", "max_parallel_requests": "max_in_flight"}


def _pool(draft: Draft, model: str, place: Location) -> Tree:
    for tree in draft.pools.values():
        if tree.get("models") is not None and tree["models"].value == [model]:
            return tree
    name = free_name(model.rpartition("/")[2], draft.pools)
    draft.pools[name] = {"models": Said([model], place), "servers": []}
    return draft.pools[name]


def _listener(draft: Draft, name: str) -> None:
    """Listen where LiteLLM does."""
    words = f"LiteLLM's port; {name} names no address"
    draft.listeners["public"] = {"bind": Said("127.0.0.1:4000", beside=words)}
