"""Takes the pictures of the pages for the docs: `python -m tests.helpers.screenshots [FOLDER]`. Needs Chromium."""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.helpers.shown_node import MOE, node_after

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
LOOKS = {"light": "", "dark": "--blink-settings=preferredColorScheme=0"}
SIZES = [(width, 1000, look) for width in (1400, 800) for look in LOOKS]
PHONE = (400, 1500)
"""Narrower than Chromium makes a window, so a phone is a frame in a page."""


def chromium() -> str | None:
    """The browser, by the names that distributions give it.

    Not Ubuntu's: it is a snap, which sees no file in /tmp, or a script that asks for the snap.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    paths = filter(None, map(shutil.which, names))
    return next((path for path in paths if not _is_snap(Path(path))), None)


def _is_snap(program: Path) -> bool:
    with program.open("rb") as content:
        return "snap" in program.resolve().parts or b"/snap/bin/" in content.read(100)


def picture(page: Path, target: Path, size: tuple[int, int], look: str) -> None:
    """A page as a PNG."""
    browser = chromium()
    assert browser is not None, "Chromium is not installed"
    with tempfile.TemporaryDirectory() as profile:
        own = [f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"]
        own += [f"--screenshot={target}", *filter(None, [LOOKS[look]]), page.as_uri()]
        subprocess.run([browser, *QUIET, *own], check=True, capture_output=True, timeout=300)


def frames(text: str, *shown: tuple[int, int, str]) -> str:
    """A page that has another one in frames side by side, each with a width, a height and a look."""
    inside = (
        f'<iframe width="{width}" height="{height}" style="border:0;flex:none;color-scheme:{look}" '
        f'srcdoc="{html.escape(text)}"></iframe>'
        for width, height, look in shown
    )
    return f'<!doctype html><body style="margin:0;display:flex">{"".join(inside)}</body>'


def main(folder: Path = FOLDER) -> None:
    node = node_after()
    pages = {"node": node.node_page(), "job": node.job_page(MOE.job_id)}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in pages.items():
            page = Path(scratch) / f"{name}.html"
            page.write_text(text)
            for width, height, look in SIZES:
                picture(page, folder / f"{name}-{width}-{look}.png", (width, height), look)
            width, height = PHONE
            page.write_text(frames(text, *((width, height, look) for look in LOOKS)))
            picture(page, folder / f"{name}-{width}.png", (len(LOOKS) * width, height), "light")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
