"""The look and the script of the pages, in a real browser: its own policy lets both work, and axe finds nothing."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from ofu_exporter.serving.pages.look import POLICY, SCRIPT, STYLE
from tests.helpers.browser import BROWSER, seen, violations
from tests.helpers.screenshots import LOOKS
from tests.helpers.shown_node import MOE, ShownNode

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs"
)
NODE = ShownNode(900.0, simulated=True)
PAGES = {"node": NODE.node_page(), "job": NODE.job_page(MOE.job_id)}


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
    assert violations(PAGES[name], tmp_path, look) == []


def test_nothing_but_the_page_itself_may_be_asked_or_run() -> None:
    assert POLICY.startswith("default-src 'none'")
    assert "unsafe" not in POLICY
    assert "</" not in SCRIPT + STYLE
