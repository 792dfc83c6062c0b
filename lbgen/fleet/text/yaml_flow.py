"""Values as YAML on one line, as a fleet file reads them."""

from __future__ import annotations

import json
import re
from typing import Any

from lbgen.fleet.text.core_schema import STR, core_tag

_OLD_BOOLEANS = {"y", "n", "yes", "no", "on", "off"}
"""What YAML 1.1 takes for booleans: quoted for readers other than lbgen."""


class Reference(str):
    """A text with ``${NAME}`` in it, which is filled in from the environment when the file is read."""

    __slots__ = ()


def flow(value: Any) -> str:  # noqa: ANN401 - what YAML can say
    """Return a value on one line, as YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def scalar(value: Any) -> str:  # noqa: ANN401 - a scalar of YAML
    """Return a scalar, quoted where it would read as something else."""
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_/][A-Za-z0-9_./-]*|[0-9]+(?:ms|[smhd]|[KMG]iB)", value)
        if plain and core_tag(value) == STR and value.lower() not in _OLD_BOOLEANS:
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        # JSON's strings are YAML's, but for '$', which begins a reference.
        return quoted if isinstance(value, Reference) else quoted.replace("$", "$$")
    return json.dumps(value)
