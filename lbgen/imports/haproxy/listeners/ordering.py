"""The routes of a frontend so that each request goes where HAProxy sent it: the first rule that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbgen.imports.draft import Said

if TYPE_CHECKING:
    from lbgen.imports.haproxy.listeners.front import Front, Lead
    from lbgen.imports.haproxy.reading import Reading
    from lbgen.readers.haproxy import Line

_PATHS = ("path", "path_exact")


def in_order(reading: Reading, front: Front) -> list[Said]:
    """Return the routes of the fleet file, where the more specific one goes first."""
    made: list[tuple[dict[str, Any], Lead]] = []
    front.routes = [lead for lead in front.routes if not _tests_another_path(reading, front, lead)]
    for lead in _permitted(front):
        above = next((one for conditions, one in made if _covers(conditions, lead.conditions)), None)
        if above is not None:
            reason = f"never reached: line {above.line.location.line} takes it all"
            if above.line.location != lead.line.location:
                reading.ledger.better(lead.line.location, reason)
            continue
        for conditions, one in list(made):
            both = _both(conditions, lead.conditions)
            if both is not None and (one.backend, one.respond) != (lead.backend, lead.respond):
                made.append((both, one))
        made.append((lead.conditions, lead))
    return [said for conditions, lead in made for said in _routes(reading, front, conditions, lead)]


def _tests_another_path(reading: Reading, front: Front, lead: Lead) -> bool:
    """Tell, and note, whether a rule tests a path that another rule has changed before."""
    changed = _changed_before(front, lead)
    if changed is not None:
        reason = f"line {changed.location.line} changes the path that it tests"
        reading.ledger.left(lead.line.location, f"{reason}: other routes handle its requests")
    return changed is not None


def _changed_before(front: Front, lead: Lead) -> Line | None:
    """Return the rule that changes the path before this one tests it, as ``use_backend`` is read last."""
    paths = _list(lead.conditions.get("path")) + _list(lead.conditions.get("path_exact"))
    last = lead.line.words[0] == "use_backend"
    for routes, strip, add, line in front.rewrites:
        if not last and lead.line.location < line.location:
            continue
        for one in routes:
            under = _list(one.get("path")) + ([strip] if strip else []) + ([add] if add else [])
            if paths and (not under or any(_below(path, prefix) for path in paths for prefix in under)):
                return line
    return None


def _permitted(front: Front) -> list[Lead]:
    """Return the rules, those for all paths cut down to what may pass."""
    if not front.allowed:
        return front.routes
    found: list[Lead] = []
    for lead in front.routes:
        if lead.respond is not None:
            found.append(lead)
            continue
        narrowed = (_narrowed(lead.conditions, one) for one in front.allowed)
        found += [lead._replace(conditions=one) for one in narrowed if one is not None]
    if front.refusal is not None:
        line, status = front.refusal
        found.append(type(front.routes[0])({}, line, respond={"status": status})) if front.routes else None
    return found


def _narrowed(conditions: dict[str, Any], permitted: dict[str, Any]) -> dict[str, Any] | None:
    """Return what of a rule's requests may pass; None where that is nothing, or no route can say it."""
    if _covers(permitted, conditions):
        return conditions
    path = any(key in permitted for key in _PATHS)
    own = {key: one for key, one in conditions.items() if key in permitted or (path and key in _PATHS)}
    rest = {key: one for key, one in conditions.items() if key not in own}
    return {**rest, **permitted} if _covers(own, permitted) else None


def _covers(first: dict[str, Any], later: dict[str, Any]) -> bool:
    """Tell whether every request that fits a later rule fits an earlier one."""
    for key, value in first.items():
        if key == "path":
            paths = _list(later.get("path")) + _list(later.get("path_exact"))
            if not paths or not all(any(_below(path, prefix) for prefix in _list(value)) for path in paths):
                return False
        elif key not in later or not set(map(str, _list(later[key]))) <= set(map(str, _list(value))):
            return False
    return True


def _below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix.rstrip('/')}/")


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - one or several
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def _both(first: dict[str, Any], later: dict[str, Any]) -> dict[str, Any] | None:
    """Return the conditions of both, where a path in the later one would go before the first one's test."""
    if any(key in first for key in _PATHS) or not any(key in later for key in _PATHS):
        return None
    if not first or any(key in later and later[key] != first[key] for key in first):
        return None
    return {**later, **first}


def _routes(reading: Reading, front: Front, conditions: dict[str, Any], lead: Lead) -> list[Said]:
    comments = tuple(lead.line.comments)
    if lead.respond is not None:
        return [Said({**conditions, "respond": lead.respond}, lead.line.location, comments)]
    if lead.backend in reading.answers:
        return [Said({**conditions, "respond": reading.answers[lead.backend]}, lead.line.location, comments)]
    pool = reading.pools.get(lead.backend or "")
    if pool is None:
        reading.ledger.left(lead.line.location, f"'{lead.backend}' was not found")
        return []
    found = []
    for values in _rewritten(reading, front, conditions, lead):
        last = ("strip_prefix", "add_prefix")
        route: dict[str, Any] = {key: value for key, value in values.items() if key not in last}
        route |= {"pool": pool, **{key: values[key] for key in last if key in values}}
        if front.headers:
            route["headers"] = {key: value for key, value in front.headers.items() if value}
            route = {key: value for key, value in route.items() if value != {}}
        found.append(Said(route, lead.line.location, comments))
    return found


def _rewritten(
    reading: Reading, front: Front, conditions: dict[str, Any], lead: Lead
) -> list[dict[str, Any]]:
    """Return a rule's routes with the prefixes that frontend and backend take off or put before the path."""
    rules = list(front.rewrites)
    if lead.backend in reading.prefixes:
        strip, add, line = reading.prefixes[lead.backend or ""]
        rules.append(([{}], strip, add, line))
    found: list[dict[str, Any]] = []
    whole: dict[str, Any] = dict(conditions)
    for routes, strip, add, line in rules:
        for one in routes:
            where = one or ({"path": strip} if strip and "path" not in conditions else {})
            if strip and _list(where.get("path") or conditions.get("path")) != [strip]:
                reading.ledger.left(
                    line.location, f"'strip_prefix' removes the route's path, which is not {strip}"
                )
            elif not where or _covers(where, conditions):
                whole |= _change(strip, add)
            elif not any(key in conditions for key in where):
                found.append({**conditions, **where, **_change(strip, add)})
    return [*found, whole]


def _change(strip: str, add: str) -> dict[str, Any]:
    return {**({"strip_prefix": True} if strip else {}), **({"add_prefix": add} if add else {})}
