"""Values as YAML that people can read: texts of several lines stand as blocks."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes lists indented, texts as blocks, and nothing by reference."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's
        super().increase_indent(flow, False)  # noqa: FBT003 - likewise

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - likewise
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def documents(header: str, *values: object) -> str:
    """Return values as the documents of one YAML file, below a comment."""
    parts = [
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
        for value in values
    ]
    return header + "---\n".join(parts)
