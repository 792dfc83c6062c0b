"""Running a page's blocks one after the other in one shell, as a reader would."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from tests.docs.blocks import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.docs.blocks import Block

PROGRAMS = ("bash", "curl", "haproxy", "ip", "jq", "nginx", "openssl", "prometheus", "promtool", "unshare")
TIMEOUT_S = 120
"""A page takes seconds; this is for one that hangs."""


class Ran(NamedTuple):
    """How a block that was run ended."""

    block: Block
    code: int
    said: str


def missing() -> list[str]:
    """Return the programs that the pages use and this machine has not."""
    return [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]


def run_page(blocks: Sequence[Block], folder: Path) -> list[Ran]:
    """Write the files and run the commands of a page in `folder`, up to the first that fails.

    What is ``/tmp`` to the page is a folder of its own, with a short name: sockets lie there.
    """
    outputs = folder.parent / f"{folder.name}-said"
    outputs.mkdir()
    with TemporaryDirectory(prefix="lbgen-docs-") as temporary:
        lines = ["set +e"]
        for number, block in enumerate(blocks):
            own = block._replace(text=block.text.replace("/tmp/", f"{temporary}/"))
            if block.title:
                lines += _written(own, outputs / f"{number}.file")
            elif block.runs:
                lines += _command(own, outputs / str(number))
        script = outputs / "page.sh"
        script.write_text("\n".join(lines) + "\nexit 0\n", encoding="utf-8")
        _run(script, folder, temporary)
        ran = [_ended(block, outputs / str(number)) for number, block in enumerate(blocks) if block.runs]
    return [one._replace(said=one.said.replace(f"{temporary}/", "/tmp/")) for one in ran]


def complaints(ran: Sequence[Ran]) -> list[str]:
    """Return what did not come as the page promises."""
    found = []
    for block, code, said in ran:
        where = f"line {block.line}: {block.text}"
        if code != block.code:
            found.append(f"{where}ended with {code}, not {block.code}:\n{said}")
        elif block.output is not None and not fits(said, block.output):
            found.append(f"{where}says\n{said}\nand not\n{block.output}")
    return found


def _written(block: Block, text: Path) -> list[str]:
    text.write_text(block.text, encoding="utf-8")
    place = shlex.quote(block.title)
    return [f'mkdir -p "$(dirname {place})"', f"cp {shlex.quote(str(text))} {place}"]


def _command(block: Block, output: Path) -> list[str]:
    """Run a block in the page's own shell, so that its variables and jobs stay; each line has to succeed."""
    source = output.with_suffix(".sh")
    source.write_text(block.text, encoding="utf-8")
    stop = "" if block.code else "trap 'echo $? >{0}.code; exit' ERR; set -E"
    return [
        f"exec >{shlex.quote(str(output))} 2>&1",
        stop.format(shlex.quote(str(output))),
        f"source {shlex.quote(str(source))}",
        f"echo $? >{shlex.quote(str(output))}.code",
        "trap - ERR",
    ]


def _ended(block: Block, output: Path) -> Ran:
    code = output.with_name(output.name + ".code")
    if not code.exists():
        return Ran(block, -1, "(not reached)")
    return Ran(block, int(code.read_text()), output.read_text(encoding="utf-8", errors="replace"))


def _run(script: Path, folder: Path, temporary: str) -> None:
    """Run in a network of its own where that can be had: the pages' ports are free there."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("LBGEN_", "PYTEST"))}
    environ |= {
        "PATH": _path(),
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        "TMPDIR": temporary,
    }
    shell = subprocess.Popen(
        [*_apart(), "bash", str(script)],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        shell.wait(TIMEOUT_S)
    finally:
        with suppress(ProcessLookupError):  # nothing is left
            os.killpg(shell.pid, signal.SIGKILL)  # what it started in the background, too
        shell.wait()


def _path() -> str:
    """Return the PATH with lbgen's own folder first, and with the folders of daemons."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _apart() -> list[str]:
    """Return what runs a command among processes and ports of its own, where that is to be had."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    space = ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    apart = [*space, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        subprocess.run([*apart, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return apart
