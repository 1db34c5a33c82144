"""Opens pages in a real browser: what its script has made of one, and what a screen reader would stumble over.

One browser of a process of tests has all its pages, each in a tab of its own: a start costs five times a page. It is
driven by the DevTools protocol over a pipe.
"""

from __future__ import annotations

import atexit
import functools
import html
import importlib.resources
import json
import os
import re
import select
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.helpers.screenshots import QUIET, chromium

BROWSER = chromium()
WINDOW = (800, 600)
PATIENCE = 180.0
"""Seconds for one page."""
WHOLE = "new XMLSerializer().serializeToString(document.doctype||new Text())+document.documentElement.outerHTML"


def seen(
    page: Path | str, look: str = "light", window: tuple[int, int] = WINDOW, seconds: float = 4.0
) -> str:
    """A page, of a file or an address, as the browser has it when its script has run for some seconds of its time."""
    address = page if isinstance(page, str) else page.as_uri()
    try:
        return _browser().seen(address, look, window, seconds)
    except BaseException:
        _browser.cache_clear()  # the next page has another browser
        raise


def printed(page: Path, target: Path, profile: Path) -> None:
    """A page on paper, as PDF."""
    flags = [f"--user-data-dir={profile}", f"--print-to-pdf={target}", page.as_uri()]
    subprocess.run(
        [str(BROWSER), *QUIET, *flags], check=True, capture_output=True, timeout=PATIENCE
    )


class _Browser:
    """Chromium, and the pipe over which it is told what to do."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = [f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe"]
        # A new tab of its own would take 4 % of a core for as long as the browser stands.
        flags.append("--no-startup-window")
        # It reads from descriptor 3 and writes to 4.
        shell = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1', "sh"]
        self._process = subprocess.Popen(
            [*shell, str(BROWSER), *QUIET, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._wishes, self._answers = self._process.stdin, self._process.stdout
        self._number = 0
        self._events: list[tuple[str | None, str | None]] = []
        """What it has told of pages, unasked."""
        self._unread = b""

    def close(self) -> None:
        """Without its pipe the browser ends."""
        self._wishes.close()
        self._answers.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._profile.cleanup()

    def seen(self, address: str, look: str, window: tuple[int, int], seconds: float) -> str:
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        page = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        shown = self._shown(page, address, look, window, seconds)
        self._call("Target.closeTarget", targetId=target)
        return shown

    def _shown(
        self, page: str, address: str, look: str, window: tuple[int, int], seconds: float
    ) -> str:
        width, height = window
        self._call(
            "Emulation.setDeviceMetricsOverride",
            page,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": look}
        self._call("Emulation.setEmulatedMedia", page, features=[scheme])
        self._call("Emulation.setVirtualTimePolicy", page, policy="pause")
        answer = self._call("Page.navigate", page, url=address)
        assert "errorText" not in answer, answer
        self._call(
            "Emulation.setVirtualTimePolicy",
            page,
            policy="pauseIfNetworkFetchesPending",
            budget=1000 * seconds,
            maxVirtualTimeTaskStarvationCount=9999,
        )
        self._event("Emulation.virtualTimeBudgetExpired", page)
        text = self._call("Runtime.evaluate", page, expression=WHOLE, returnByValue=True)
        return str(text["result"]["value"])

    def _call(self, method: str, page: str = "", **parameters: object) -> Any:
        """What the browser answers."""
        self._number += 1
        wish = {"id": self._number, "method": method, "params": parameters}
        self._wishes.write(
            json.dumps(wish | ({"sessionId": page} if page else {})).encode() + b"\0"
        )
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message)
                return message["result"]
            self._events.append((message.get("method"), message.get("sessionId")))

    def _event(self, method: str, page: str) -> None:
        """Wait until it tells this of a page."""
        while (method, page) not in self._events:
            message = self._message()
            self._events.append((message.get("method"), message.get("sessionId")))
        self._events.clear()

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            poll = select.poll()
            poll.register(self._answers, select.POLLIN)
            assert poll.poll(1e3 * max(0.0, until - time.monotonic())), "the browser says nothing"
            part = os.read(self._answers.fileno(), 1 << 16)
            assert part, "the browser has ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return dict(json.loads(message))


@functools.cache
def _browser() -> _Browser:
    browser = _Browser()
    atexit.register(browser.close)
    return browser


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
    return found_by(seen(page, look))
