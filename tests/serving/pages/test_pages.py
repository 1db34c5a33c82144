"""The look and the script of the pages, in a real browser: its own policy lets both work, and axe finds nothing."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import node_state
from ofu_exporter.serving.pages import POLICY, SCRIPT, STYLE
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.values.reasons import Reason
from tests.helpers.agent import page_server
from tests.helpers.browser import BROWSER, found_by, seen, violations, with_script
from tests.helpers.node import snapshot_of
from tests.helpers.screenshots import LOOKS, frames
from tests.helpers.shown_node import MOE, ShownNode, node_after
from tests.helpers.values import gpu, health, reading

pytestmark = pytest.mark.xdist_group("shown node")

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs on Debian"
)
INSTANCES = [
    reading(device=gpu(number, instance=f"{part}")) for number in range(2) for part in range(7)
]
OTHERS = {
    "72 GPUs": snapshot_of(*(reading(device=gpu(number)) for number in range(72))),
    "instances": snapshot_of(*INSTANCES),
    "no source": snapshot_of(source=replace(health(), up=False, reason=Reason.NO_DRIVER)),
}
WIDTHS = (1400, 800, 400, 360)
WRITE = "const out=document.createElement('pre');out.id='found';document.body.append(out);"


def node() -> ShownNode:
    return node_after(900.0, simulated=True)


def page_of(name: str) -> str:
    """The node's, its job's, or that of a node of another kind."""
    if name == "node":
        return node().node_page()
    return node().job_page(MOE.job_id) if name == "job" else other_page(name)


def other_page(name: str) -> str:
    return node_page(node_state(OTHERS[name], History(), "node-1", 1.0, Faults()))


def with_policy(text: str, policy: str = POLICY) -> str:
    """A page from a file has no headers; frame-ancestors counts in headers only."""
    said = policy.replace("; frame-ancestors 'none'", "")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(said)}">'
    return text.replace("<head>", f"<head>{meta}", 1)


@needs_browser
@pytest.mark.slow
def test_the_policy_lets_our_script_and_style_work_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(with_policy(page_of("node")))
    assert '<th scope="col"><button>GPU</button></th>' in seen(page)
    page.write_text(
        with_policy(page_of("node").replace("setInterval(refresh", "setInterval( refresh"))
    )
    assert "<button>" not in seen(page)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["node", "job"])
def test_axe_finds_nothing(name: str, look: str, tmp_path: Path) -> None:
    assert violations(page_of(name), tmp_path, look) == []


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_axe_finds_nothing_on_nodes_of_other_kinds(name: str, tmp_path: Path) -> None:
    assert violations(other_page(name), tmp_path, "light") == []


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("name", ["node", "job", "instances"])
def test_nothing_is_cut_off_from_a_phone_to_a_wide_screen(name: str, tmp_path: Path) -> None:
    measured = (
        "onload=()=>{"
        + WRITE
        + "out.textContent=JSON.stringify([...document.querySelectorAll('iframe')]"
        ".map(frame=>[+frame.width,...[...frame.contentDocument.querySelectorAll('body,main,.card')]"
        ".map(each=>each.scrollWidth-each.clientWidth)]))}"
    )
    page = tmp_path / "page.html"
    page.write_text(
        with_script(frames(page_of(name), *((width, 900, "light") for width in WIDTHS)), measured)
    )
    for width, *beyond in found_by(seen(page)):
        assert len(beyond) >= 3
        assert not any(beyond), f"at {width} px"


READER = (
    "const head=document.querySelectorAll('#gpus th button')[1];head.click();"
    "document.querySelector('#gpus tbody a').focus();scrollTo(0,200);setTimeout(()=>{"
    + WRITE
    + "out.textContent="
    "JSON.stringify({title:document.title,seen:document.getElementById('seen').textContent,"
    "sort:document.querySelectorAll('#gpus th')[1].getAttribute('aria-sort'),"
    "gpus:[...document.querySelectorAll('#gpus tbody th b')].map(each=>each.textContent),"
    "focus:document.activeElement.textContent,scrolled:scrollY})},12500)"
)
"""Sorts the GPUs by OFU, highest first, goes to the first job, scrolls, and says 12.5 s later what there is."""


def read_for_a_while(then: str) -> Any:
    """What a reader has of the node's page after some seconds in which the agent serves another one."""
    shown: Iterator[str] = iter([with_script(page_of("node"), READER)])
    with page_server(lambda: next(shown, then), "text/html") as url:
        return found_by(seen(url, window=(800, 360), seconds=15))


@needs_browser
@pytest.mark.slow
def test_the_page_refreshes_itself_and_keeps_order_focus_and_place() -> None:
    later = node_after(905.0)
    found = read_for_a_while(later.node_page())
    ofus = {
        view.gpu.index: view.window.utilization or 0.0
        for view in later.snapshot.gpus
        if view.window
    }
    measured = sorted(ofus, key=lambda index: -ofus[index])
    assert found["title"] in later.node_page()
    assert found["title"] not in page_of("node")
    assert found["sort"] == "descending"
    assert [each for each in found["gpus"] if each in ofus] == measured
    assert found["focus"] == MOE.job_id
    assert found["scrolled"] == 200


@needs_browser
@pytest.mark.slow
def test_what_is_not_the_agents_page_does_not_take_its_place() -> None:
    """Such as the form of a proxy that wants a password."""
    found = read_for_a_while("<html><body>Who are you?</body></html>")
    assert found["seen"] == "the agent does not answer"
    assert len(found["gpus"]) == len(node().snapshot.gpus)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("fail=>signal?.addEventListener('abort',()=>fail(signal.reason))", "does not answer"),
        ("()=>take({ok:false,status:404})", "answers 404"),
    ],
    ids=["it hangs", "it has forgotten the job"],
)
def test_a_page_that_the_agent_gives_no_more_says_so(answer: str, words: str) -> None:
    """A browser waits for five minutes for an agent that hangs, and the old numbers would stand there as new."""
    fetches = f"window.fetch=(_,{{signal}})=>new Promise((take,fail)=>({answer})(fail));"
    with page_server(lambda: with_script(page_of("node"), fetches + READER), "text/html") as url:
        found = found_by(seen(url, window=(800, 360), seconds=15))
    assert found["seen"] == f"the agent {words}"


def test_nothing_but_the_page_itself_may_be_asked_or_run() -> None:
    assert POLICY.startswith("default-src 'none'")
    assert "unsafe" not in POLICY
    assert "</" not in SCRIPT + STYLE
