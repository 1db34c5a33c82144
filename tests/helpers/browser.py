"""Opens pages in a real browser: what its script has made of one, and what a screen reader would stumble over."""

from __future__ import annotations

import html
import importlib.resources
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.helpers.screenshots import LOOKS, QUIET, chromium

BROWSER = chromium()


def seen(page: Path | str, profile: Path, *flags: str, seconds: float = 4.0) -> str:
    """A page, of a file or an address, as the browser has it when its script has run for some seconds of its time."""
    address = page if isinstance(page, str) else page.as_uri()
    budget = f"--virtual-time-budget={1000 * seconds:.0f}"
    own = [f"--user-data-dir={profile}", budget, "--dump-dom", address]
    done = subprocess.run(
        [str(BROWSER), *QUIET, *flags, *own],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


def with_script(text: str, *scripts: str) -> str:
    """A page that runs scripts of the test's at its end."""
    return text.replace(
        "</body>", "".join(f"<script>{each}</script>" for each in scripts) + "</body>"
    )


def found_by(shown: str) -> Any:
    """What a script of the test's has written into an element `found`, as JSON."""
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', shown, re.S)
    return json.loads(html.unescape(found))


def violations(text: str, folder: Path, look: str) -> Any:
    """What axe finds on a page, light or dark."""
    axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text()
    run = (
        "axe.run().then(found => { const out = document.createElement('pre'); out.id = 'found';"
        "out.textContent = JSON.stringify(found.violations.map(each => [each.id,"
        "each.nodes.map(node => node.html + node.failureSummary)])); document.body.append(out) })"
    )
    page = folder / "page.html"
    page.write_text(with_script(text, axe, run))
    return found_by(seen(page, folder / "profile", *filter(None, [LOOKS[look]])))
