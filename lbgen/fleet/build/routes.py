"""Routes: those that are written, and those that follow from the pools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lbgen.fields import INVALID
from lbgen.fleet.build.context import items, usable
from lbgen.fleet.build.pools import headers, response_headers
from lbgen.fleet.kinds import PATH_MODEL
from lbgen.fleet.schema.common import ROUTE_TIMEOUTS
from lbgen.fleet.schema.route import RESPOND, ROUTE
from lbgen.model import Match, Respond, Route, Timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lbgen.fleet.build.context import Context
    from lbgen.model import Pool
    from lbgen.problems import Path


def routes(context: Context, written: Sequence[Any], path: Path) -> tuple[Route, ...]:
    """Return the routes that a listener names. `path`: the listener's ``routes``."""
    made = [
        _route(context, values, (*path, index), index)
        for index, values in enumerate(written)
        if values is not INVALID
    ]
    _complain_about_names(context, made)
    return tuple(made)


def default_routes(context: Context, pools: Sequence[Pool], path: Path) -> tuple[Route, ...]:
    """Return the routes of a listener without any: everything to the only pool, or models to their pools."""
    if len(pools) == 1:
        return (Route("default", Match(), pools[0].name, path=path),)
    for pool in pools:
        if not pool.models and not context.refused((*pool.path, "models")):
            message = f"no route leads to the pool '{pool.name}', and it has no 'models'"
            hint = (
                "give each pool its 'models', or the listener 'routes', or mark the pool with 'standby: true'"
            )
            context.error("unrouted-pool", message, pool.path, hint, on_key=True)
    return tuple(
        Route(pool.name, Match(models=pool.models), pool.name, path=path) for pool in pools if pool.models
    )


def _route(context: Context, written: Mapping[str, Any], path: Path, index: int) -> Route:
    values = ROUTE.filled(written)
    split = {name: share for name, share in (values["split"] or {}).items() if share is not INVALID}
    _complain(context, written, split, path)
    return Route(
        name=values["name"] or f"route-{index + 1}",
        match=_match(values),
        pool=values["pool"],
        split=split,
        split_by=_by(values["by"]),
        when_down=values["when_down"],
        respond=_respond(context, values["respond"], (*path, "respond")),
        strip_prefix=values["strip_prefix"],
        add_prefix=(values["add_prefix"] or "").rstrip("/"),
        priority=values["priority"],
        timeouts=Timeouts(**ROUTE_TIMEOUTS.filled(values["timeouts"])),
        headers=headers(values["headers"]),
        response_headers=response_headers(values["response_headers"]),
        path=path,
    )


def _match(values: Mapping[str, Any]) -> Match:
    return Match(
        hosts=tuple(items(values, "host")),
        methods=tuple(items(values, "method")),
        paths=tuple(_bare(path) for path in items(values, "path")),
        path_model=any(path.endswith(PATH_MODEL) for path in items(values, "path")),
        paths_exact=tuple(items(values, "path_exact")),
        headers=_texts(values["header"]),
        query=_texts(values["query"]),
        form=_texts(values["form"]),
        models=tuple(items(values, "model")),
        prompt_over=values["prompt_over"],
        prompt_under=values["prompt_under"],
        max_tokens_over=values["max_tokens_over"],
        websocket=values["websocket"],
    )


def _bare(path: str) -> str:
    return path.removesuffix(PATH_MODEL).rstrip("/") or "/"


def _texts(written: Any) -> Mapping[str, str]:  # noqa: ANN401 - a mapping, or nothing
    return {key: value for key, value in usable(written, {}).items() if value is not INVALID}


def _by(written: Any) -> str:  # noqa: ANN401 - a word, or a mapping with the header
    if isinstance(written, dict):
        name = written.get("header", INVALID)
        return "request" if name is INVALID else f"header:{name}"
    return str(written)


MAX_ANSWER = 8_192
"""Bytes of a fixed answer: HAProxy's has to fit into a buffer of 16 kB beside the headers."""

_WITHOUT_BODY = frozenset({204, 304})
"""Statuses whose answers end with their headers (RFC 9110)."""


def _respond(context: Context, written: Mapping[str, Any] | None, path: Path) -> Respond | None:
    if written is None:
        return None
    values = RESPOND.filled(written)
    for key in ("body", "json"):
        said = written.get(key, "" if key == "body" else INVALID)
        if values["status"] in _WITHOUT_BODY and said is not INVALID and (said or key == "json"):
            message = f"an answer with the status {values['status']} has no body"
            hint = f"leave '{key}' out, or write another status"
            context.error("bad-value", message, (*path, key), hint, on_key=True)
    if "json" in written:
        # Without characters beyond ASCII the answer is the same under every encoding.
        body = json.dumps(values["json"], separators=(",", ":"))
        if len(body) > MAX_ANSWER:
            message = f"the answer has {len(body)} bytes, and {MAX_ANSWER} is the most"
            context.error("bad-value", message, (*path, "json"), "serve it from a pool of its own")
        return Respond(values["status"], body, "application/json")
    return Respond(values["status"], values["body"] or "", values["content_type"] or "text/plain")


def _complain(context: Context, written: Mapping[str, Any], split: Mapping[str, int], path: Path) -> None:
    for key in ("pool", "when_down"):
        name = usable(written.get(key), None)
        if name is not None:
            context.known_pool(name, (*path, key))
    for name in split:
        context.known_pool(name, (*path, "split", name), on_key=True)
    if split and not any(split.values()):
        context.error("split-of-nothing", "all shares of the split are 0", (*path, "split"))
    paths = items(written, "path")
    if len({path.endswith(PATH_MODEL) for path in paths}) > 1:
        message = "some of these paths end in /{model} and others do not"
        context.error("bad-value", message, (*path, "path"), "write two routes")
    if "by" in written and "split" not in written:
        context.error(
            "key-without-effect",
            "'by' says how to split, and there is no 'split'",
            (*path, "by"),
            on_key=True,
        )
    if "when_down" in written and "respond" in written:
        message = "'when_down' is for routes to pools; a fixed answer is never down"
        context.error("key-without-effect", message, (*path, "when_down"), on_key=True)
    if written.get("strip_prefix") and "path" not in written:
        message = "'strip_prefix' takes 'path' off, and there is none"
        context.error("missing-key", message, (*path, "strip_prefix"), on_key=True)


def _complain_about_names(context: Context, made: Sequence[Route]) -> None:
    seen: dict[str, Path] = {}
    for route in made:
        if route.name in seen:
            first = context.place(seen[route.name])
            message = f"a route named '{route.name}' is there twice; the first is at {first}"
            context.error("duplicate-name", message, (*route.path, "name"))
        seen.setdefault(route.name, (*route.path, "name"))
