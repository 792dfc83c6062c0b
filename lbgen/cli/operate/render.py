"""``lbgen render``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lbgen.cli.inputs import load_fleet, only_target, templates_folder, usable_fleet
from lbgen.cli.operate.render_told import DONE, FOUND, report_files
from lbgen.cli.options import (
    Command,
    fleet_options,
    format_option,
    option,
    or_standard_output,
    templates_option,
)
from lbgen.manifests import FORMS, WATCHING, packed
from lbgen.problems import printable
from lbgen.render import render
from lbgen.secret_values import RealSecrets, StandInSecrets
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.cli.console import Console
    from lbgen.cli.options import FleetRequest
    from lbgen.model import Fleet
    from lbgen.render import RenderedFile
    from lbgen.targets.spec import Secrets


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    output: str | None
    part: str
    check: bool
    diff: bool
    templates: str | None
    force: bool
    strict: bool
    form: str
    images: tuple[str, ...]
    network: str | None
    first_token: str | None
    format: str

    @property
    def looks_only(self) -> bool:
        """True when nothing is written, so that stand-ins may take the place of secrets."""
        return self.check or self.diff


@click.command(cls=Command)
@fleet_options
@option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(allow_dash=True),
    callback=or_standard_output,
    help="Write the files to DIR/TARGET/ instead of printing them.",
)
@option(
    "--part",
    type=click.Choice(["all", "http", "upstreams", "all-in-one"]),
    default="all",
    show_default=True,
    help="all: a complete configuration; http, upstreams: parts that an existing configuration can include.",
)
@option(
    "--as",
    "form",
    type=click.Choice(["files", *FORMS, "terraform"]),
    default="files",
    show_default=True,
    help="What to write: the files alone; with what runs them: a Compose file, Kubernetes manifests, a"
    " kustomize folder, or the result of Terraform's external data source; or what monitors them, in"
    " DIR/TARGET/prometheus and DIR/TARGET/grafana: a Prometheus configuration with rules and alerts, or a"
    " Grafana dashboard.",
)
@option(
    "--image",
    "images",
    multiple=True,
    metavar="TARGET=IMAGE",
    help="Image to use instead of the official one.",
)
@option("--network", metavar="NAME", help="With --as compose: the Docker network of the servers.")
@option(
    "--first-token",
    metavar="DURATION",
    help="With --as prometheus: alert when the P95 time to first token exceeds this. Default: 10s.",
)
@option("--check", is_flag=True, help="Write nothing; exit 1 if the files in DIR differ.")
@option("--diff", is_flag=True, help="Write nothing; print the differences to DIR, with secrets masked.")
@templates_option
@option("--force", is_flag=True, help="Also replace files that lbgen did not write.")
@option(
    "--strict",
    is_flag=True,
    help="With -o: exit 1 if a file must be made on the balancer's machine because its certificate is not "
    "here. Warnings about the fleet do not count: see 'lbgen check --strict'.",
)
@format_option("Format of the list of files: text, or JSON on standard output.")
@click.pass_obj
def command(
    console: Console,
    /,
    request: FleetRequest,
    **options: Any,  # noqa: ANN401 - what click parsed
) -> int:
    """Render configuration files from a fleet file.

    FLEET is a path, or - for standard input; further files are overlays, merged from left to right.
    Without -o, the file of a single target is printed to standard output.
    """
    wanted = Wanted(**options)
    _refuse_contradictions(wanted, request)
    if wanted.form == "terraform":
        request = request._replace(sets=(*request.sets, *_query()))
    loaded = load_fleet(console, request)
    understood = usable_fleet(console, loaded, request, each=True)
    if wanted.part == "all-in-one" and not _one_file(understood):
        able = ", ".join(f"-t {name}" for name, one in TARGETS.items() if one.abilities.one_file)
        raise click.UsageError(f"--part all-in-one is only for targets with several files: {able}")
    if wanted.output is None:
        return _print(console, understood, wanted)
    work = _look if wanted.looks_only else _write
    return work(console, understood, wanted, Path(wanted.output))


def _one_file(fleet: Fleet) -> bool:
    return all(TARGETS[settings.name].abilities.one_file for settings in fleet.targets)


def _refuse_contradictions(wanted: Wanted, request: FleetRequest) -> None:
    if wanted.form != "files" and wanted.part != "all":
        raise click.UsageError(f"--as {wanted.form} needs a complete configuration: omit --part")
    if wanted.network is not None and wanted.form != "compose":
        raise click.UsageError("--network is only for --as compose")
    if wanted.first_token is not None and wanted.form != "prometheus":
        raise click.UsageError("--first-token is only for --as prometheus")
    if wanted.images and wanted.form in {"files", "terraform", *WATCHING}:
        raise click.UsageError(f"--image has no meaning with --as {wanted.form}")
    if wanted.form == "terraform" and (wanted.output is not None or "-" in request.names):
        raise click.UsageError(
            "--as terraform reads the query from standard input and prints the result: omit -o and '-'"
        )
    if wanted.format == "json" and wanted.output is None:
        raise click.UsageError("--format json lists the files of a folder: give it with -o DIR")
    if wanted.format == "json" and wanted.diff:
        raise click.UsageError("--format json and --diff exclude each other: give one of them")
    if wanted.output is not None and not wanted.output.strip():
        raise click.UsageError("-o is empty: is a shell variable not set?")
    if wanted.looks_only and wanted.output is None:
        raise click.UsageError("--check and --diff compare with files on disk: give their folder with -o DIR")


def _query() -> list[str]:
    """Return what Terraform writes to standard input, as texts of ``--set``; nothing from a terminal."""
    from lbgen.manifests.terraform import sets_of  # noqa: PLC0415 - plain files need none of it

    if sys.stdin is None or sys.stdin.isatty():
        return []
    return sets_of(sys.stdin.read())


def _print(console: Console, fleet: Fleet, wanted: Wanted) -> int:
    if wanted.form == "terraform":
        return _print_result(console, fleet, wanted)
    names = [settings.name for settings in fleet.targets]
    if len(names) > 1:
        raise click.UsageError(f"{len(names)} targets ({', '.join(names)}): use -o DIR, or name one with -t")
    for name in names:
        main, *beside = _render(console, fleet, name, wanted, StandInSecrets())
        others = ", ".join(file.path for file in beside if not file.aside)
        if others:
            raise click.UsageError(f"{name} needs {others} beside its {main.path}: use -o DIR")
        console.result(main.text)
    return 0


def _print_result(console: Console, fleet: Fleet, wanted: Wanted) -> int:
    from lbgen.manifests.terraform import external_result  # noqa: PLC0415 - plain files need none of it

    name = only_target(fleet, "a data source").name
    console.result(external_result(_render(console, fleet, name, wanted, RealSecrets())))
    return 0


def _write(console: Console, fleet: Fleet, wanted: Wanted, directory: Path) -> int:
    from lbgen.files import compare, known_secrets, refuse_foreign, write_files  # noqa: PLC0415 - printing needs none of it

    secrets = RealSecrets(leave_out=wanted.form == "files")
    rendered = {}
    for settings in fleet.targets:
        folder = _folder(directory, settings.name, wanted)
        settle = known_secrets(folder, secrets)
        rendered[folder] = _render(console, fleet, settings.name, wanted, secrets, settle)
    if not wanted.force:  # for all targets before the first file is written
        for folder, files in rendered.items():
            refuse_foreign(compare(folder, files))
    done = [
        change
        for folder, files in rendered.items()
        for change in write_files(folder, files, force=wanted.force)
    ]
    kept = {path for path in secrets.left_out for folder in rendered if (folder / path).exists()}
    left_out = {path: made for path, made in secrets.left_out.items() if path not in kept}
    for path in sorted(kept):
        console.note(f"{path} was not changed: the certificate and key for it are not here")
    report_files(console, done, wanted.format, DONE, left_out)
    return 1 if wanted.strict and left_out else 0


def _folder(directory: Path, target: str, wanted: Wanted) -> Path:
    """Return where a target's files go: what watches it must not take the place of what it runs."""
    return directory / target / wanted.form if wanted.form in WATCHING else directory / target


def _look(console: Console, fleet: Fleet, wanted: Wanted, directory: Path) -> int:
    from lbgen.files import compare, diff, known_secrets  # noqa: PLC0415 - printing needs none of it

    secrets = StandInSecrets()
    changes = []
    for settings in fleet.targets:
        folder = _folder(directory, settings.name, wanted)
        settle = known_secrets(folder, secrets)
        changes += compare(folder, _render(console, fleet, settings.name, wanted, secrets, settle))
    if secrets.missing:
        names = ", ".join(str(secret) for secret in secrets.missing)
        console.note(
            f"not available here: {names}; the existing files with secrets are assumed to be up to date"
        )
    differing = [change for change in changes if change.kind != "same"]
    if wanted.diff and differing:
        console.result(printable(diff(differing)))
    report_files(console, changes, wanted.format, FOUND, {})
    if not differing:
        console.note(f"no differences in {directory}")
    return 1 if wanted.check and differing else 0


def _render(  # noqa: PLR0913, PLR0917 - one value each
    console: Console,
    fleet: Fleet,
    target: str,
    wanted: Wanted,
    secrets: Secrets,
    settle: Callable[[RenderedFile], RenderedFile | None] | None = None,
) -> tuple[RenderedFile, ...]:
    templates = templates_folder(wanted.templates)
    if wanted.form in {"files", "terraform"}:
        return render(fleet, target, wanted.part, templates, secrets, settle)
    from lbgen.manifests.order import Order  # noqa: PLC0415 - plain files need none of it

    image = _images(wanted.images).get(target)
    order = Order(
        fleet, target, secrets, wanted.form, image, wanted.network, templates, settle, _seconds(wanted)
    )
    made = packed(order)
    for note in made.notes:
        console.note(f"{target}: {note}")
    return made.files


def _seconds(wanted: Wanted) -> float:
    """Return how late first tokens may be."""
    from lbgen.units import parse_duration  # noqa: PLC0415 - plain files need none of it

    try:
        return parse_duration(wanted.first_token or "10s") / 1_000
    except ValueError as error:
        raise click.UsageError(f"--first-token: {error}") from None


def _images(texts: tuple[str, ...]) -> dict[str, str]:
    images = {}
    for text in texts:
        target, equals, image = text.partition("=")
        if not equals or not image or target not in TARGETS:
            raise click.UsageError(
                f"--image {text}: give the target as well, such as {next(iter(TARGETS))}=IMAGE"
            )
        images[target] = image
    return images
