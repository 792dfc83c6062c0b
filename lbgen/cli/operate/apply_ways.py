"""How `lbgen apply` starts, reloads and tries a balancer, as its options say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.deploy.reload import NOT_STARTED, by_command, by_master_socket, by_pid_file
from lbgen.deploy.smoke import smoke, smoke_for
from lbgen.problems import LbgenError
from lbgen.secret_values import RealSecrets
from lbgen.targets.registry import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.cli.operate.apply import Wanted
    from lbgen.deploy.reload import Reload
    from lbgen.model import Fleet, TargetSettings


def smoke_of(fleet: Fleet, settings: TargetSettings, wanted: Wanted) -> Callable[[], list[str]]:
    """Return what sends the smoke request; raises `click.UsageError` for one that nobody would answer."""
    path = wanted.smoke
    if path is None:
        return list
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
        raise click.UsageError(f"--smoke {path}: not the path of a request, such as /v1/chat/completions")
    ways = (wanted.reload, wanted.start, wanted.pid, wanted.master_socket, settings.runtime_socket)
    if not any(ways) and not TARGETS[settings.name].abilities.watches:
        raise click.UsageError(
            "--smoke sends a request to the new workers: it needs --reload, --pid, --master-socket, --start,"
            " or targets.haproxy.runtime_socket"
        )
    request = smoke_for(fleet, path, wanted.smoke_model, RealSecrets())
    return lambda: [smoke(fleet, settings.name, request)]


def start_of(wanted: Wanted) -> Reload | None:
    """Return how `--start` starts the balancer; raises `click.UsageError` for an empty command."""
    if wanted.start is not None and not wanted.start.strip():
        raise click.UsageError("--start is empty: is a shell variable not set?")
    return None if wanted.start is None else by_command(wanted.start, "start")


def reload_of(target: str, wanted: Wanted) -> Reload | None:
    """Return the way to reload that was named, if any; raises `click.UsageError` for two, or an empty one."""
    if sum(value is not None for value in (wanted.reload, wanted.pid, wanted.master_socket)) > 1:
        raise click.UsageError("--reload, --pid and --master-socket exclude each other: give one of them")
    if wanted.reload is not None:
        if not wanted.reload.strip():
            raise click.UsageError("--reload is empty: is a shell variable not set?")
        return by_command(wanted.reload)
    if wanted.pid is not None:
        return by_pid_file(target, Path(wanted.pid))
    if wanted.master_socket is not None and not TARGETS[target].program.master_socket:
        able = [one.title for one in TARGETS.values() if one.program.master_socket]
        raise click.UsageError(f"--master-socket is only for {' or '.join(able)}")
    return by_master_socket(wanted.master_socket) if wanted.master_socket is not None else None


def require_pid(wanted: Wanted) -> None:
    """Raise `LbgenError`, before anything is written, for a PID file that is not there."""
    if wanted.pid is not None and wanted.start is None and not Path(wanted.pid).exists():
        raise LbgenError(f"--pid {wanted.pid}: no such file: {NOT_STARTED}")


def share_of(text: str) -> float:
    """Return the share that a text such as ``50%`` means; raises `click.UsageError`."""
    number = text.removesuffix("%")
    if not number.isdecimal() or int(number) > 100:
        raise click.UsageError(f"--max-change {text}: not a whole number of percent, such as 30%")
    return int(number) / 100
