"""Where the values of secrets come from, when files are written and when they are only looked at."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from lbgen.problems import LbgenError
from lbgen.reading import MIB, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.model import Secret

MAX_BYTES = MIB
"""Of a file that holds a secret."""


class RealSecrets:
    """Reads secrets from the environment and from files, for files that are put to use."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

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


class StandInSecrets:
    """Gives real secrets where they are to be had and stand-ins elsewhere, and remembers which."""

    def __init__(self, real: RealSecrets | None = None) -> None:
        self._real = real or RealSecrets()
        self.missing: dict[Secret, str] = {}
        """Each secret that was not to be had, with the reason."""

    def resolve(self, secret: Secret) -> str:
        """Return the value or a stand-in, the same one each time for the same reference."""
        try:
            return self._real.resolve(secret)
        except LbgenError as error:
            self.missing[secret] = str(error)
            return "stand-in-" + hashlib.sha256(str(secret).encode()).hexdigest()[:16]
