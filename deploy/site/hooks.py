"""Takes what the pages of docs/ link to, and what lies beside docs/, into the documentation's site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BESIDE = "repository/"
"""The folder of the site that has what lies outside of docs/."""
SHIM = "assets/iframe-worker.js"
AS_IT_IS = (".md", ".png", ".svg")
LINK = re.compile(r"""(\]\(|\b(?:src|srcset|href)=")([^)\s#"]+)""")
"""A link or a picture of Markdown, or of HTML in it: what stands before its target; the target without its anchor."""
LANGUAGES = {".c": "c", ".py": "python", ".sh": "bash", ".yaml": "yaml", ".json": "json"}


def path_of(target: str, at: str) -> str | None:
    """The path of what a file at `at` links to, from the top of the repository; None where it is no file of it."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(at), target))
    if (ROOT / path / "README.md").is_file():
        return f"{path}/README.md"
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def place(path: str) -> str:
    """Where a file of the repository stands among the sources of the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return BESIDE + path if path.endswith(AS_IT_IS) else f"{BESIDE}{path}.md"


def linked() -> set[str]:
    """Every file and folder outside of docs/ to which docs/ leads, over any number of links."""
    ends = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")]
    found: set[str] = set()
    while ends:
        at = ends.pop()
        new = {path for path in leads_to(at) if not path.startswith("docs/")} - found
        found |= new
        ends += [path for path in new if path.endswith(".md")]
    return found


def leads_to(at: str) -> Iterator[str]:
    for _, target in LINK.findall((ROOT / at).read_text()):
        path = path_of(target, at)
        if path is not None:
            yield path


def shown(path: str) -> str:
    """A file that is no Markdown, or each file of a folder, as a page that shows it."""
    lines = ["---", "search: {exclude: true}", "---", f"# `{path}`", ""]
    folder = (ROOT / path).is_dir()
    for file in sorted((ROOT / path).iterdir()) if folder else [ROOT / path]:
        if folder:
            lines += [f"## `{file.name}`", ""]
        lines += [
            f"~~~~{LANGUAGES.get(file.suffix, 'text')}",
            file.read_text().rstrip(),
            "~~~~",
            "",
        ]
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what docs/ links to outside of it, and the script without which a site in a folder cannot be searched."""
    files.append(File.generated(config, SHIM, abs_src_path=str(HERE / Path(SHIM).name)))
    for path in sorted(linked()):
        if path.endswith(AS_IT_IS):
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
        else:
            files.append(File.generated(config, place(path), content=shown(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leads each link to where its target stands in the site."""
    uri = page.file.src_uri
    at = uri.removeprefix(BESIDE) if uri.startswith(BESIDE) else f"docs/{uri}"

    def moved(link: re.Match[str]) -> str:
        path = path_of(link[2], at)
        if path is None:
            return link[0]
        return link[1] + posixpath.relpath(place(path), posixpath.dirname(uri) or ".")

    return LINK.sub(moved, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Gives the theme's search a name for those who hear the page."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')
