"""``lbgen schema``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lbgen.cli.options import Command
from lbgen.fleet.schema import json_schema

if TYPE_CHECKING:
    from lbgen.cli.console import Console


@click.command(cls=Command)
@click.pass_obj
def command(console: Console) -> None:
    """Print the JSON Schema of the fleet file.

    The schema is of draft-07. Editors complete and check a fleet file that says in its first line
    "# yaml-language-server: $schema=lbgen.schema.json".
    """
    console.result(json.dumps(json_schema(), indent=2, ensure_ascii=False))
