"""Envoy's configuration, read back: the first file alone, which holds no pools."""

from lbgen.targets.inventory import Inventory, frozen, statements


def read(text: str) -> Inventory:
    """Return what the file says, by its keys."""
    sections: dict[str, list[str]] = {}
    title = "global"
    for line in statements(text):
        if not line[0].isspace():
            title = line.partition(":")[0]
        sections.setdefault(title, []).append(line.strip())
    return Inventory({}, frozen(sections))
