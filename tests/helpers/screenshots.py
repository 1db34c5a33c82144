"""Takes the pictures of the pages for the docs: `python -m tests.helpers.screenshots [FOLDER]`. Needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.helpers.shown_node import MOE, ShownNode

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
LOOKS = {"light": "", "dark": "--blink-settings=preferredColorScheme=0"}
SIZES = ((1400, 1000, "light"), (1400, 1000, "dark"), (800, 1000, "dark"), (500, 1400, "light"))


def chromium() -> str | None:
    """The browser, by the names that distributions give it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def picture(page: Path, target: Path, size: tuple[int, int], look: str) -> None:
    """A page as a PNG."""
    browser = chromium()
    assert browser is not None, "Chromium is not installed"
    with tempfile.TemporaryDirectory() as profile:
        own = [f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"]
        own += [f"--screenshot={target}", *filter(None, [LOOKS[look]]), page.as_uri()]
        subprocess.run([browser, *QUIET, *own], check=True, capture_output=True, timeout=60)


def main(folder: Path = FOLDER) -> None:
    node = ShownNode()
    pages = {"node": node.node_page(), "job": node.job_page(MOE.job_id)}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in pages.items():
            page = Path(scratch) / f"{name}.html"
            page.write_text(text)
            for width, height, look in SIZES:
                picture(page, folder / f"{name}-{width}-{look}.png", (width, height), look)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
