"""HAProxy's configuration, read back."""

from lbgen.targets.inventory import Inventory, PoolEntry, ServerEntry, frozen, number, statements


def read(text: str) -> Inventory:
    """Return what a configuration says."""
    pools: dict[str, PoolEntry] = {}
    sections: dict[str, list[str]] = {}
    title, inside = "global", list[str]()
    for line in [*statements(text), "end"]:
        if line[0].isspace():
            inside.append(line.strip())
            continue
        kind, _, name = title.partition(" ")
        if kind == "backend":
            pools[name] = _pool(inside)
        elif inside:
            sections.setdefault(title, []).extend(inside)
        title, inside = _title(line.split()), []
    return Inventory(pools, frozen(sections))


def _title(words: list[str]) -> str:
    """Return what a section is about; tables of limits are backends in HAProxy alone."""
    kind, name = words[0], words[1] if len(words) > 1 else ""
    if kind == "frontend":
        return name.removeprefix("lb:").replace(":", " ", 1)
    if kind == "backend":
        return f"backend {name}" if ":" not in name else f"table {name}"
    return "global" if kind in {"global", "defaults", "crt-store"} else f"{kind} {name}"


def _pool(lines: list[str]) -> PoolEntry:
    servers: dict[str, ServerEntry] = {}
    strategy = "roundrobin"
    settings: list[str] = []
    default: list[str] = []
    for line in lines:
        words = line.split()
        if words[0] == "server" and len(words) > 2:
            servers[words[1]] = _server(words[2], default + words[3:])
        elif words[0] == "default-server":
            default = words[1:]
            settings.append(line)
        elif words[0] == "balance":
            strategy = " ".join(words[1:])
        else:
            settings.append(line)
    return PoolEntry(strategy, servers, tuple(settings))


def _server(address: str, words: list[str]) -> ServerEntry:
    places = [at for at, word in enumerate(words[:-1]) if word in {"weight", "maxconn"}]
    values = {words[at]: words[at + 1] for at in places}
    weight = number(values.get("weight", "1"))
    weight = 1 if weight is None else weight
    state = "down" if "disabled" in words else "drain" if weight == 0 else "up"
    said = {*places, *(at + 1 for at in places)}  # by place: 'rise 2' is not the 2 of 'weight 2'
    said |= {at for at, word in enumerate(words) if word in {"disabled", "backup"}}
    return ServerEntry(
        address,
        weight,
        number(values.get("maxconn")),
        state,
        "backup" in words,
        tuple(word for at, word in enumerate(words) if at not in said),
    )
