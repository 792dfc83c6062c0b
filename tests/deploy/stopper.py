"""Runs lbgen again and again, each time stopped by a signal just before its Nth act on the system.

Its arguments are a fleet and a folder to warm up with. It reads JSON lines
{"arguments": [...], "at": N, "signal": S} and answers each with {"status": S, "acts": [...]}: how the process
ended, and what it did until then. N = 0: nothing stops it. The acts are Python's audit events; nothing in
lbgen knows of this.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import lbgen.cli.operate.apply  # noqa: F401 - imported once, not by every child
from lbgen.cli.guard import run
from lbgen.targets.registry import TARGETS

ACTS = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.chmod", "os.chown", "os.kill",
    "shutil.rmtree", "fcntl.flock", "subprocess.Popen", "socket.connect",
}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR


class Stopper:
    """An audit hook that counts acts; the same thing again at once, such as asking a probe, is one act."""

    def __init__(self, at: int, signal: int) -> None:
        self.acts: list[str] = []
        self._at, self._signal = at, signal

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
        if not writes and event not in ACTS:
            return
        act = f"{event} {self._name(arguments)}"
        if self.acts and self.acts[-1] == act:
            return
        self.acts.append(act)
        if len(self.acts) == self._at:
            self._at = 0
            os.kill(os.getpid(), self._signal)

    def _name(self, arguments: tuple[Any, ...]) -> str:
        first = arguments[0] if arguments else ""
        name = Path(first).name if isinstance(first, str | os.PathLike) else ""
        return re.sub(r"^(\.lbgen-new-.*\.|tmp)\w{8}$", r"\1*", name)


def child(order: dict[str, Any], answer: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    stopper = Stopper(order["at"], order["signal"])
    sys.addaudithook(stopper)
    code = run(order["arguments"])
    os.write(answer, json.dumps(stopper.acts).encode())
    os._exit(code)


def main() -> None:
    type(TARGETS["haproxy"].program).settle_s = 0.0  # nothing runs here that would need a rest
    fleet, folder = sys.argv[1:]
    with redirect_stderr(StringIO()):  # compiles the templates, once and not in every child
        run(["render", fleet, "-o", folder])
    for line in sys.stdin:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(json.loads(line), theirs)
        os.close(theirs)
        with os.fdopen(ours) as said:
            acts = json.loads(said.read() or "[]")
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(json.dumps({"status": code, "acts": acts}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
