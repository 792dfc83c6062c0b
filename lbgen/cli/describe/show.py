"""``lbgen show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lbgen.cli.inputs import load_fleet, usable_fleet
from lbgen.cli.options import Command, fleet_options, format_option
from lbgen.fleet.written.show import as_json, as_yaml
from lbgen.problems import FleetError

if TYPE_CHECKING:
    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest


@click.command(cls=Command)
@fleet_options
@format_option("Output format.", "yaml", "json")
@click.pass_obj
def command(
    console: Console,
    /,
    request: FleetRequest,
    **options: Any,  # noqa: ANN401 - what click parsed
) -> int:
    """Show a fleet with every default filled in.

    The output is a fleet file; comments say where each value came from. Secrets remain references.
    """
    loaded = load_fleet(console, request)
    understood = usable_fleet(console, loaded, request, each=True)
    if loaded.document is None:  # there is no fleet without one
        raise FleetError(loaded.problems)
    write = as_json if options["format"] == "json" else as_yaml
    console.result(write(understood, loaded.document))
    return 0
