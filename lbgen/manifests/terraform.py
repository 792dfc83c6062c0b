"""The program protocol of the `external` data source of Terraform and OpenTofu.

Source: https://registry.terraform.io/providers/hashicorp/external/latest/docs/data-sources/external. The
program reads a JSON object of strings, the data source's `query`, from standard input, and prints one;
when it fails it exits other than 0 with a message on standard error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.render import RenderedFile


def sets_of(query: str) -> list[str]:
    """Return a query as ``KEY=VALUE`` texts of ``--set``; raises `LbgenError`.

    Values are YAML, and so JSON: ``jsonencode`` makes lists and mappings of Terraform's.
    """
    try:
        value = json.loads(query or "{}")
    except ValueError as error:
        raise LbgenError(f"standard input holds the query, and it is not JSON: {error}") from None
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise LbgenError("standard input holds the query, which is an object of strings: use jsonencode()")
    for key in value:
        if "=" in key:  # which would end the key sooner, and give its rest to the value
            raise LbgenError(
                f"standard input holds the query, and '{key}' is not the path of a key: it has a ="
            )
    return [f"{key}={one}" for key, one in value.items()]


def external_result(files: Iterable[RenderedFile]) -> str:
    """Return the files as the data source's `result`: texts by path."""
    return json.dumps(
        {file.path: file.text for file in files if not file.aside}, indent=2, ensure_ascii=False
    )
