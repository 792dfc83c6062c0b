"""A real Chromium without a window, over its DevTools protocol: what a page shows and complains of."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
COMPLAINTS = {
    "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Network.loadingFailed",
}  # fmt: skip
START_S = 60
REPLY_S = 60
LARGEST = 64 * 2**20
"""Bytes in one message: a picture of a long page."""


class View(NamedTuple):
    """How a page is looked at."""

    width: int
    height: int = 900
    scheme: str = "light"
    media: str = "screen"


class Seen(NamedTuple):
    """What was seen."""

    value: Any
    """Of the script."""
    complaints: list[str]
    """Errors and warnings on the console, and what could not be loaded."""
    requests: list[str]
    """Addresses that the page asked for."""
    picture: bytes
    """PNG of the whole page."""


def program() -> str | None:
    """Return the path of a Chromium; None when there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def look(page: Path, view: View, script: str) -> Seen:
    """Open a page, run a script in it, and take a picture."""
    chromium = program()
    assert chromium is not None, "the caller skips where there is no Chromium"
    with tempfile.TemporaryDirectory(prefix="lbgen-browser-", ignore_cleanup_errors=True) as folder:
        command = [chromium, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                return asyncio.run(_look(Path(folder), page, view, script))
            finally:
                process.terminate()
                process.wait(30)


async def _look(folder: Path, page: Path, view: View, script: str) -> Seen:
    port = await _port(folder / "DevToolsActivePort")
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
            targets = await response.json()
        address = next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page")
        async with session.ws_connect(address, max_msg_size=LARGEST) as socket:
            return await _Tab(socket).look(page, view, script)


async def _port(file: Path) -> str:
    """Return the port that Chromium chose, as soon as it says so."""
    async with asyncio.timeout(START_S):
        while True:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) == 2:
                return lines[0]
            await asyncio.sleep(0.05)


class _Tab:
    """One tab and what it has said so far."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._events: list[dict[str, Any]] = []

    async def look(self, page: Path, view: View, script: str) -> Seen:
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._call(f"{domain}.enable")
        features = [{"name": "prefers-color-scheme", "value": view.scheme}]
        await self._call("Emulation.setEmulatedMedia", media=view.media, features=features)
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=view.width, height=view.height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        await self._call("Page.navigate", url=page.as_uri())
        await self._event("Page.loadEventFired")
        value = await self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in value, value
        picture = await self._call("Page.captureScreenshot", captureBeyondViewport=True)
        return Seen(
            value["result"].get("value"),
            self._complaints(),
            self._requests(),
            base64.b64decode(picture["data"]),
        )

    async def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        number = self._number
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(REPLY_S):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == number:
                    assert "error" not in message, (method, message["error"])
                    result: dict[str, Any] = message["result"]
                    return result
                self._events.append(message)

    async def _event(self, method: str) -> None:
        async with asyncio.timeout(REPLY_S):
            while all(event.get("method") != method for event in self._events):
                self._events.append(await self._socket.receive_json())

    def _complaints(self) -> list[str]:
        return [str(event["params"]) for event in self._events if event.get("method") in COMPLAINTS]

    def _requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event.get("method") == "Network.requestWillBeSent"
        ]
