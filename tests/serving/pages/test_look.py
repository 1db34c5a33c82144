"""The look and the script of the pages, in a real browser: its own policy lets both work, and axe finds nothing."""

from __future__ import annotations

import html
import importlib.resources
import json
import re
import subprocess
from pathlib import Path

import pytest

from ofu_exporter.serving.pages.look import POLICY, SCRIPT, STYLE
from tests.helpers.screenshots import LOOKS, QUIET, chromium
from tests.helpers.shown_node import MOE, ShownNode

BROWSER = chromium()
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs"
)
NODE = ShownNode(900.0, simulated=True)
PAGES = {"node": NODE.node_page(), "job": NODE.job_page(MOE.job_id)}


def seen(page: Path, profile: Path, *flags: str) -> str:
    """The page as the browser has it once its script has run."""
    own = [f"--user-data-dir={profile}", "--virtual-time-budget=4000", "--dump-dom", page.as_uri()]
    done = subprocess.run(
        [str(BROWSER), *QUIET, *flags, *own],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


def with_policy(text: str, policy: str = POLICY) -> str:
    """A page from a file has no headers; frame-ancestors counts in headers only."""
    said = policy.replace("; frame-ancestors 'none'", "")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(said)}">'
    return text.replace("<head>", f"<head>{meta}", 1)


@needs_browser
@pytest.mark.slow
def test_the_policy_lets_our_script_and_style_work_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(with_policy(PAGES["node"]))
    assert '<th scope="col"><button>GPU</button></th>' in seen(page, tmp_path / "one")
    page.write_text(
        with_policy(PAGES["node"].replace("dress();setInterval", "dress( );setInterval"))
    )
    assert "<button>" not in seen(page, tmp_path / "other")


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(name: str, look: str, tmp_path: Path) -> None:
    axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text()
    run = (
        "axe.run().then(found => { const out = document.createElement('pre'); out.id = 'found';"
        "out.textContent = JSON.stringify(found.violations.map(each => [each.id,"
        "each.nodes.map(node => node.html + node.failureSummary)])); document.body.append(out) })"
    )
    page = tmp_path / "page.html"
    page.write_text(
        PAGES[name].replace("</body>", f"<script>{axe}</script><script>{run}</script></body>")
    )
    shown = seen(page, tmp_path / "profile", *filter(None, [LOOKS[look]]))
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', shown, re.S)
    assert json.loads(html.unescape(found)) == []


def test_nothing_but_the_page_itself_may_be_asked_or_run() -> None:
    assert POLICY.startswith("default-src 'none'")
    assert "unsafe" not in POLICY
    assert "</" not in SCRIPT + STYLE
