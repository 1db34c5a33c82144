"""The documentation as a site has all of docs/ and each link, as the repository shows it, and nothing of others."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.helpers.browser import BROWSER, seen, violations
from tests.helpers.markdown import anchors, blocks
from tests.helpers.quiet_server import answering
from tests.helpers.screenshots import LOOKS, QUIET

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docs-site")]
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs on Debian"
)


def built(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(target)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = built(ROOT / "mkdocs.yml", target)
    assert done.returncode == 0, done.stderr
    return target


class Article(HTMLParser):
    """The blocks of a page's own text, the anchors of its headings, and what a browser would load for the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.blocks: Counter[str] = Counter()
        self.anchors: list[str] = []
        self.loaded: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if tag in {"script", "img", "source", "iframe"} or (
            tag == "link" and held.get("rel") not in {"canonical", "next", "prev"}
        ):
            self.loaded += [held[n] or "" for n in ("src", "srcset", "href") if held.get(n)]
        self._inside |= tag == "article"
        if not self._inside:
            return
        if re.fullmatch(r"h[1-6]", tag):
            self.blocks["heading"] += 1
            self.anchors.append(held.get("id") or "")
        elif tag in {"ul", "ol", "li", "pre", "table", "tr"}:
            self.blocks[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "article"


BESIDE = [ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")]
BESIDE += [ROOT / folder / "README.md" for folder in ("deploy/slurm", "helm/ofu-exporter")]


def place(page: Path) -> Path:
    """Where a page stands in the site."""
    if page in PAGES:
        return page.relative_to(DOCS).with_suffix(".html")
    path = "repository" / page.relative_to(ROOT)
    return path.with_name("index.html") if path.stem == "README" else path.with_suffix(".html")


@pytest.mark.parametrize(
    "page", [*PAGES, *BESIDE], ids=lambda page: str(page.relative_to(ROOT).with_suffix(""))
)
def test_a_page_of_the_site_has_the_blocks_and_anchors_that_the_repository_shows(
    site: Path, page: Path
) -> None:
    """Two readers of Markdown differ where a list or a table has no empty line before it."""
    article = Article((site / place(page)).read_text())
    assert article.anchors == anchors(page)
    assert article.blocks == blocks(page)


def places(entry: object) -> Iterator[str]:
    """The pages of a part of the navigation, in order."""
    if isinstance(entry, str):
        yield entry
    for each in entry.values() if isinstance(entry, dict) else ():
        yield from places(each)
    for each in entry if isinstance(entry, list) else ():
        yield from places(each)


def navigation() -> list[object]:
    text = (ROOT / "mkdocs.yml").read_text()
    found: list[object] = yaml.safe_load(text.partition("\nnav:\n")[2])
    return found


def test_every_page_has_its_place_in_the_navigation_once() -> None:
    found = [*places(navigation())]
    assert sorted(name for name in found if not name.startswith("repository/")) == sorted(
        str(page.relative_to(DOCS)) for page in PAGES
    )
    assert len(found) == len(set(found))


def test_each_way_in_is_read_in_the_order_of_the_navigation() -> None:
    ways = re.split(r"^## .*\n", (DOCS / "index.md").read_text(), flags=re.MULTILINE)[1:]
    tabs = navigation()[1:]
    assert len(ways) == len(tabs) == 3
    for way, tab in zip(ways, tabs, strict=True):
        pages = re.findall(r"\]\(([^)]+)\)", way)
        listed = [*places(tab)]
        order = [listed.index(page.replace("../", "repository/")) for page in pages]
        assert order == sorted(order), pages


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in Article(page.read_text()).loaded:
            assert not urlsplit(target).netloc, f"{page.name}: {target}"
    for sheet in site.rglob("*.css"):
        for target in re.findall(r"(?:url\(|@import\s*)[\"']?([^\"')]+)", sheet.read_text()):
            assert target.startswith("data:") or not urlsplit(target).netloc, target


def test_a_page_that_nothing_leads_to_a_broken_link_and_a_broken_anchor_are_refused(
    tmp_path: Path,
) -> None:
    links = {
        "[no](nothing.md)": "nothing.md",
        "[no](../helm/nothing.yaml)": "nothing.yaml",
        "[no](#nowhere)": "an anchor '#nowhere'",
        "[no](../CONTRIBUTING.md#nowhere)": "CONTRIBUTING.md#nowhere",
    }
    docs = tmp_path / "docs"
    docs.mkdir()
    text = "\n\n".join(("# Home", "[Contributing](../CONTRIBUTING.md)", *links))
    (docs / "index.md").write_text(f"{text}\n")
    (docs / "lost.md").write_text("# Lost\n")
    config = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    config = config.replace("deploy/site/hooks.py", str(ROOT / "deploy/site/hooks.py"))
    (tmp_path / "mkdocs.yml").write_text(f"{config}\nnav: [index.md, repository/CONTRIBUTING.md]\n")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "made")
    assert done.returncode
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    for said in (*links.values(), 'not included in the "nav"'):
        assert any(said in line for line in warnings), said


FOUND = re.compile(r'<a href="[^"]*explain\.html[^"]*" class="md-search-result__link"')


@needs_browser
def test_a_folder_can_be_searched_without_a_server(site: Path) -> None:
    address = f"{(site / 'index.html').as_uri()}?q=divergence"
    assert FOUND.search(seen(address, seconds=8))


PROBE = """<img src="held.png" alt=""><script>
const wait = setInterval(() => {
  if (!document.querySelector("a.md-search-result__link")) return
  clearInterval(wait)
  const out = document.createElement("pre"); out.id = "loaded"
  out.textContent = performance.getEntriesByType("resource").map(each => each.name).join("\\n")
  document.body.append(out)
  fetch("found") }, 100)</script></body>"""
"""Tells the server when the search has found something, and writes what the browser notes that it has asked for."""


def shown(address: str, profile: Path) -> str:
    """A page as a browser of its own has it when it has loaded, which finds no other host."""
    own = [f"--user-data-dir={profile}", "--dump-dom", address]
    nobody = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    command = [str(BROWSER), *QUIET, nobody, *own]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


class Held(http.server.SimpleHTTPRequestHandler):
    """Serves a folder. It holds back one picture, and with it the end of loading, until the search has found."""

    found: threading.Event

    def do_GET(self) -> None:
        if self.path == "/found":
            self.found.set()
        if self.path == "/held.png":
            self.found.wait(30)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@needs_browser
def test_a_search_behind_a_server_asks_no_other_host(site: Path, tmp_path: Path) -> None:
    (site / "probed.html").write_text((site / "index.html").read_text().replace("</body>", PROBE))
    Held.found = threading.Event()
    handler = functools.partial(Held, directory=str(site))
    with answering(handler) as server:
        address = f"{server.url}/"
        text = shown(f"{address}probed.html?q=divergence", tmp_path)
    assert FOUND.search(text)
    (loaded,) = re.findall(r'<pre id="loaded">(.*?)</pre>', text, re.DOTALL)
    assert "search_index.json" in loaded
    assert all(each.startswith(address) for each in loaded.split()), loaded


@pytest.fixture
def unseen(site: Path, tmp_path: Path) -> Path:
    """The site at another address, for which the browser has kept no look that it had before."""
    (tmp_path / "site").symlink_to(site)
    return tmp_path / "site"


@needs_browser
@pytest.mark.parametrize("look", LOOKS)
def test_the_landing_page_has_the_look_that_the_reader_has_chosen(unseen: Path, look: str) -> None:
    scheme = {"light": "default", "dark": "slate"}[look]
    text = seen(unseen / "index.html", look)
    assert re.search(f'<body[^>]* data-md-color-scheme="{scheme}"', text)


@needs_browser
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["index", "access"])
def test_a_screen_reader_stumbles_over_nothing(unseen: Path, name: str, look: str) -> None:
    assert violations((unseen / f"{name}.html").read_text(), unseen, look) == []
