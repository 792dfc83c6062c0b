"""A server of the standard library that runs in a thread while a `with` block does."""

from __future__ import annotations

import threading
from socketserver import ThreadingTCPServer
from typing import Self


class Background(ThreadingTCPServer):
    """Serves from the begin of a `with` block to its end; a base beside `ThreadingTCPServer`'s own kinds."""

    daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
