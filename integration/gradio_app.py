"""A Gradio application whose state stays with the server: ``gradio_app.py NAME ADDRESS PORT``."""

from __future__ import annotations

import sys

import gradio


def count(state: int) -> tuple[str, int]:
    """Return the server's name and how often this session has asked."""
    return f"{NAME} {state + 1}", state + 1


NAME, ADDRESS, PORT = sys.argv[1:]
with gradio.Blocks() as page:
    kept, shown = gradio.State(0), gradio.Textbox()
    gradio.Button().click(count, kept, [shown, kept], api_name="count")
page.queue().launch(server_name=ADDRESS, server_port=int(PORT), quiet=True)
