"""``lbgen calibrate``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click

from lbgen.cli.inputs import seconds
from lbgen.cli.options import Command, option
from lbgen.cli.predict.reports import expect_writable, write_report
from lbgen.cli.progress import Progress
from lbgen.model import Secret
from lbgen.problems import LbgenError
from lbgen.secret_values import RealSecrets
from lbgen.simulate.servers.step_times.fit import fitted
from lbgen.simulate.servers.step_times.profile_file import ENDINGS, profile_named, profile_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.cli.console import Console
    from lbgen.lab.calibrate import Probing
    from lbgen.simulate.servers.step_times.fit import Probes
    from lbgen.simulate.servers.step_times.profiles import Profile


class Wanted(NamedTuple):
    """What the options of one call ask for."""

    url: str
    model: str | None
    api_key: str | None
    like: str
    max_in_flight: int
    prompt_tokens: int
    time_limit: str
    output: str | None


@click.command(cls=Command)
@click.argument("url", metavar="URL")
@option("--model", metavar="NAME", help="The model to ask for. Default: the first of /v1/models.")
@option("--api-key", metavar="env:NAME|file:PATH", help="Where the engine's API key is kept.")
@option(
    "--like",
    metavar="PROFILE",
    default="plain-prompts",
    show_default=True,
    help="The profile that has what cannot be measured: tokens in a step, the size of the KV cache.",
)
@option(
    "--max-in-flight",
    type=click.IntRange(1, 4096),
    default=32,
    show_default=True,
    help="Requests at once at most: 1, 2, 4 and so on are tried.",
)
@option(
    "--prompt-tokens",
    type=click.IntRange(64, 1_000_000),
    default=4096,
    show_default=True,
    help="Tokens of the longest prompt, about.",
)
@option("--time-limit", metavar="T", default="5m", show_default=True, help="No probe begins later.")
@option("-o", "--output", metavar="FILE", help="Where the profile is written. Default: standard output.")
@click.pass_obj
def command(console: Console, /, **options: Any) -> None:  # noqa: ANN401 - click's
    """Measure the speed of a running engine and write it as a profile.

    Sends short and long prompts, one at a time and in batches, to one server that speaks OpenAI's API. The
    server should receive no other requests meanwhile.
    """
    wanted = Wanted(**options)
    _expect_url(wanted.url)
    like = profile_named(wanted.like)
    limit = seconds("--time-limit", wanted.time_limit)
    if wanted.output is not None:
        expect_writable(wanted.output, *ENDINGS, option="--output")
    progress = Progress(console, "measurements")
    probing = _probing(console, wanted, limit, progress)
    try:
        probes = asyncio.run(probing.run())
    finally:
        progress.clear()
    found = fitted(probes, like)
    if probing.stopped:
        console.note("the time limit was reached before all measurements were made")
    text = profile_text(found, _notes(probing, probes, like))
    if wanted.output is None:
        console.result(text.rstrip("\n"))
    else:
        write_report(console, wanted.output, text)


def _expect_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.UsageError(f"'{url}' is not a URL: write http://HOST:PORT")


def _probing(console: Console, wanted: Wanted, limit_s: float, progress: Progress) -> Probing:
    try:
        from lbgen.lab.calibrate import Limits, Probing  # noqa: PLC0415 - aiohttp is an extra
    except ImportError as error:
        raise LbgenError(
            f"lbgen calibrate needs the package {error.name}: pip install 'lbgen[lab]'"
        ) from None
    headers = {"authorization": f"Bearer {_secret(wanted.api_key)}"} if wanted.api_key else {}
    limits = Limits(wanted.max_in_flight, wanted.prompt_tokens, limit_s)

    def note(text: str) -> None:
        progress.clear()
        console.note(text)

    url = wanted.url.rstrip("/").removesuffix("/v1")
    return Probing(url, wanted.model, headers, limits, note, progress.show)


def _secret(text: str) -> str:
    kind, _, reference = text.partition(":")
    if kind not in {"env", "file"} or not reference:
        raise click.UsageError("--api-key: write env:NAME or file:PATH, not the key itself")
    return RealSecrets().resolve(Secret(kind, reference))


def _notes(probing: Probing, probes: Probes, like: Profile) -> Iterator[str]:
    cost = probing.cost
    today = datetime.now(UTC).date()
    yield f"Measured by lbgen calibrate on {today}: {probing.model} at {probing.url}"
    yield (
        f"{cost.requests} requests, {cost.prompt_tokens} prompt tokens and {cost.output_tokens} answer "
        f"tokens in {cost.seconds:.0f} s"
    )
    kept = ["batch_tokens", "kv_tokens"]
    if probes.slots is None:
        kept.insert(0, f"slots (at least {int(max(one.in_flight for one in probes.batches))})")
    if probes.prefix_cache is None:
        kept.append("prefix_cache")
    if not probes.deep:
        kept.append("per_kv_token_us (0: not measured)")
    yield f"Not measured, as of {like.name}: {', '.join(kept)}"
