"""Makes the pictures of `top` for the docs: `python -m tests.helpers.captures [FOLDER]`, by textual's own export."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from ofu_exporter.terminal.app import Top
from ofu_exporter.terminal.scene import Scene
from ofu_exporter.terminal.views import Choice
from tests.helpers.scenes import StillFeed, many_nodes, one_node
from tests.helpers.screenshots import FOLDER

FONTS = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
"""In the place of one that would be fetched from elsewhere."""


class Capture:
    """One picture: what is shown, how large, in which theme, and after which keys."""

    def __init__(self, scene: Scene, size: tuple[int, int], theme: str, *keys: str) -> None:
        self.scene, self.size, self.theme, self.keys = scene, size, theme, keys


def captures() -> dict[str, Capture]:
    """The pictures, by the name of their file."""
    many = many_nodes("node-42", nodes=8)
    return {
        "top-dark": Capture(one_node(), (110, 17), "textual-dark"),
        "top-light": Capture(one_node(), (110, 17), "textual-light"),
        "top-narrow": Capture(one_node(), (60, 17), "textual-light"),
        "top-wrong": Capture(many, (140, 15), "textual-dark", "A"),
        "top-compact": Capture(many, (110, 12), "textual-dark", "c"),
    }


async def svg(capture: Capture) -> str:
    """The screen as it is after the keys."""
    top = Top(StillFeed(capture.scene), Choice())
    top.theme = capture.theme
    async with top.run_test(size=capture.size) as pilot:
        await pilot.pause()
        await pilot.press(*capture.keys)
        await pilot.pause()
        return clean(top.export_screenshot(title="ofu-exporter top", simplify=True))


def clean(text: str) -> str:
    """The export without fonts from elsewhere, and with names that do not change from one export to the next."""
    text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"terminal-\d+", "t", text)
    return re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", text)


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, capture in captures().items():
        (folder / f"{name}.svg").write_text(asyncio.run(svg(capture)))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
