"""Forms as clients write them."""

from __future__ import annotations

BOUNDARY = "lb-test-boundary"
PARTS = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
ENCODED = {"Content-Type": "application/x-www-form-urlencoded"}


def part(name: str, value: bytes | str, file: str = "", *more: str) -> bytes:
    """Return one part of a form; `more`: further headers."""
    named = f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{file}"' if file else "")
    head = "\r\n".join([f"--{BOUNDARY}", named, *more])
    return f"{head}\r\n\r\n".encode() + (value.encode() if isinstance(value, str) else value) + b"\r\n"


def form(*parts: bytes) -> bytes:
    """Return a whole form."""
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
