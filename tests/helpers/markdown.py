"""Reads a Markdown file as the host of a repository shows it: headings' anchors, links, words of prose, blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

READER = MarkdownIt("commonmark").enable("table")
END = "<!-- end -->"
GENERATED = re.compile(rf"<!-- generated: .*?{END}", re.DOTALL)
BLOCKS = {
    "bullet_list_open": "ul",
    "code_block": "pre",
    "fence": "pre",
    "heading_open": "heading",
    "list_item_open": "li",
    "ordered_list_open": "ol",
    "table_open": "table",
    "tr_open": "tr",
}


@cache
def tokens(page: Path) -> list[Token]:
    return READER.parse(page.read_text())


def with_section(page: Path, name: str, lines: Iterable[str], end: str = END) -> str:
    """The text of a page with these lines in the section that is generated under this name."""
    start = f"<!-- generated: {name} -->\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(start)
    return before + start + "\n".join(lines) + "\n" + end + rest.partition(end)[2]


def section_of(page: Path, name: str) -> str:
    """What the page has in that section, of which there is one."""
    _, rest = page.read_text(encoding="utf-8").split(f"<!-- generated: {name} -->\n")
    return rest.partition(END)[0]


def anchors(page: Path) -> list[str]:
    """Of each heading, in order; what is said twice has a number at its second end."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    parsed = tokens(page)
    for before, token in pairwise(parsed):
        if before.type == "heading_open":
            text = "".join(
                each.content
                for each in token.children or []
                if each.type in {"text", "code_inline"}
            )
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def links(page: Path) -> Iterator[str]:
    """Targets of links and pictures, of Markdown and of the HTML in it."""
    for token in tokens(page):
        for each in [token, *(token.children or [])]:
            for name in ("href", "src"):
                target = each.attrGet(name)
                if target is not None:
                    yield str(target)
            if each.type in {"html_block", "html_inline"}:
                yield from re.findall(r'\b(?:href|src|srcset)="([^"]+)"', each.content)


def blocks(page: Path) -> Counter[str]:
    """How many lists, entries, tables, rows, headings and blocks of code there are."""
    return Counter(BLOCKS[token.type] for token in tokens(page) if token.type in BLOCKS)


def prose_words(page: Path) -> int:
    """Words of prose: without tables, blocks of code, targets of links and what is generated."""
    counted = 0
    tables = 0
    for token in READER.parse(GENERATED.sub("", page.read_text())):
        tables += {"table_open": 1, "table_close": -1}.get(token.type, 0)
        if token.type == "inline" and not tables:
            counted += len(re.sub(r"\]\([^)]*\)", "]", token.content).split())
    return counted
