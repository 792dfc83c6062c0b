"""What the service manager has to allow: a drop-in file for systemd, beside the configuration."""

from __future__ import annotations

from lbgen.targets.spec import Output

DROP_IN = "systemd/lbgen.conf"
STEP = 1_000
"""The limit is a multiple of this, so that one server more does not ask for a restart."""


def drop_in(unit: str, directory: str, descriptors: int) -> Output:
    """Return the drop-in that lets a unit open this many files and connections in one process.

    Without one the limit is systemd's own, 1024 and on demand 524288 (``man systemd-system.conf``).
    """
    installed = f"/etc/systemd/system/{unit}.d/lbgen.conf"
    text = (
        f"# install -D -m 644 {directory}/{DROP_IN} {installed}\n"
        f"# systemctl daemon-reload && systemctl restart {unit}\n"
        f"[Service]\nLimitNOFILE={-(-descriptors // STEP) * STEP}\n"
    )
    return Output(DROP_IN, text=text, aside=True)
