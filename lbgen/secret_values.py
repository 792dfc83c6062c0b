"""Where the values of secrets come from, when files are written and when they are only looked at."""

from __future__ import annotations

import hashlib
import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

from lbgen.model import Secret
from lbgen.problems import LbgenError
from lbgen.reading import MIB, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES = MIB
"""Of a file that holds a secret."""
STAND_IN = "stand-in\n"
"""The text of a joined file whose parts are on another machine."""


class Joined(NamedTuple):
    """A side file that holds others, one after the other."""

    place: Path
    """Where it is looked for on the balancer's machine."""
    parts: tuple[Path, ...]
    """Those that the fleet names by relative paths lie below `folder`."""
    folder: Path
    """The balancer's, as the fleet says it."""


class RealSecrets:
    """Reads secrets from the environment and from files, for files that are put to use."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        leave_out: bool = False,
        folder: Path | None = None,
    ) -> None:
        """`leave_out`: a file that joins others is left out where these are on another machine.

        `folder`: where the balancer's files go here; relative paths count from there before its own folder.
        """
        self._environ = environ
        self._folder = folder
        self._leave_out = leave_out
        self.missing: dict[Secret, str] = {}
        """Always empty: a secret that is missing raises."""
        self.left_out: dict[str, Joined] = {}
        """Each side file that is left out, with the files that it is made of."""

    def look_in(self, folder: Path) -> None:
        """Count relative paths from where the balancer's files go here, before its own folder."""
        self._folder = folder

    def resolve(self, secret: Secret) -> str:
        """Return the value; raises `LbgenError` when it is missing, empty or not one line."""
        value = self._from_file(secret) if secret.kind == "file" else self._from_environment(secret)
        if not value:
            raise LbgenError(f"the secret {secret} is empty")
        if not value.isprintable():
            raise LbgenError(f"the secret {secret} is not one line of printable characters")
        return value

    def _from_environment(self, secret: Secret) -> str:
        value = self._environ.get(secret.reference)
        if value is None:
            raise LbgenError(f"the secret {secret} is missing: the environment has no {secret.reference}")
        return value

    def _from_file(self, secret: Secret) -> str:
        try:
            return read_text(secret.reference, most=MAX_BYTES).removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise LbgenError(f"the secret {secret} cannot be read: {reason}") from None

    def joined(self, path: str, made: Joined) -> str:
        """Return the parts one after the other; raises `LbgenError` for one that cannot be read."""
        try:
            return "".join(f"{_pem_text(part, made.folder, self._folder)}\n" for part in made.parts)
        except LbgenError:
            if not self._leave_out:
                raise
            self.left_out[path] = made
            return STAND_IN


class StandInSecrets:
    """Gives real secrets where they are to be had and stand-ins elsewhere, and remembers which."""

    def __init__(self, real: RealSecrets | None = None) -> None:
        self._real = real or RealSecrets()
        self.missing: dict[Secret, str] = {}
        """Each secret that was not to be had, with the reason."""
        self.left_out: dict[str, Joined] = {}
        """Each side file that is left out, with the files that it is made of."""

    def look_in(self, folder: Path) -> None:
        """Do as `RealSecrets` does."""
        self._real.look_in(folder)

    def resolve(self, secret: Secret) -> str:
        """Return the value or a stand-in, the same one each time for the same reference."""
        try:
            return self._real.resolve(secret)
        except LbgenError as error:
            self.missing[secret] = str(error)
            return "stand-in-" + hashlib.sha256(str(secret).encode()).hexdigest()[:16]

    def joined(self, path: str, made: Joined) -> str:
        """Return the parts one after the other, or a stand-in when one of them cannot be read."""
        try:
            return self._real.joined(path, made)
        except LbgenError as error:
            self.left_out[path] = made
            self.missing[_both(made)] = str(error)
            return STAND_IN

    def refuse_missing(self) -> None:
        """Raise `LbgenError` for all secrets that were not to be had, with how a new one is made."""
        if not self.missing:
            return
        joined = {_both(made) for made in self.left_out.values()}
        ways = [way for secret in self.missing if secret not in joined and (way := _way_to_make(secret))]
        hint = [f"to make a new key, for example: {ways[0]}"] if ways else []
        raise LbgenError("\n".join([*dict.fromkeys(self.missing.values()), *hint]))


def _both(made: Joined) -> Secret:
    return Secret("file", " + ".join(map(str, made.parts)))


def _way_to_make(secret: Secret) -> str:
    """Return a command that makes a secret which is not there; empty where something is there."""
    if secret.kind == "env":
        return "" if secret.reference in os.environ else f"export {secret.reference}=$(openssl rand -hex 24)"
    made = "" if os.path.lexists(secret.reference) else shlex.quote(secret.reference)
    return made and f"(umask 077; openssl rand -hex 24 > {made})"


def _pem_text(path: Path, folder: Path, here: Path | None) -> str:
    """Return the text of a PEM file; `here` takes the place of its `folder` where it has the file."""
    own = path.is_relative_to(folder) and here
    beside = here / path.relative_to(folder) if own and here else path
    try:
        return read_text(beside if beside.exists() else path, encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM text"
        relative = (
            f" (a relative path counts from the folder of the files, here {here}, then from the target's "
            f"'directory', {folder})"
            if own
            else ""
        )
        raise LbgenError(
            f"{path} cannot be read: {reason}{relative}; HAProxy before 3.0 needs certificate and key"
            " in one file, which is made from both: run this where they are, or write 'bundle'"
        ) from None
