"""Holds a report for people as text: for a terminal, for Markdown, and the parts of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.support.tables import TextTable, markdown_words
from ofu_exporter.values.text import shown


class ReportSection(NamedTuple):
    """A table or a numbered list, what stands above it, and below it what to know of it."""

    title: str
    table: TextTable | None
    remark: str = ""
    steps: Sequence[str] = ()
    anchor: str = ""
    """Its id on a page."""

    def plain(self) -> Iterator[str]:
        yield from (f"{number}. {shown(step)}" for number, step in enumerate(self.steps, 1))
        if self.table:
            yield self.table.plain()
        if self.remark:
            yield shown(self.remark)

    def markdown(self) -> Iterator[str]:
        for number, step in enumerate(self.steps, 1):
            yield f"{number}. {markdown_words(step)}"
        if self.table:
            yield self.table.markdown()
        if self.remark:
            yield from [""] * bool(self.steps or self.table)
            yield markdown_words(self.remark)


class Document(NamedTuple):
    """A report for people: what matters first, what it is of, its tables, and what to know of them."""

    title: str
    headline: str
    facts: Sequence[str]
    sections: Sequence[ReportSection]
    remarks: Sequence[str]

    def plain(self) -> str:
        lines = [*map(shown, (self.headline, *self.facts))]
        for section in self.sections:
            lines += ["", f"{section.title}:", "", *section.plain()]
        remarks = [f"- {shown(remark)}" for remark in self.remarks]
        lines += ["", "To know:", "", *remarks] if remarks else []
        return "\n".join(lines)

    def markdown(self) -> str:
        headline, facts = map(markdown_words, (self.headline, " ".join(self.facts)))
        lines = [f"# {self.title}", "", f"**{headline}**", "", facts]
        for section in self.sections:
            lines += ["", f"## {section.title}", "", *section.markdown()]
        remarks = [f"- {markdown_words(remark)}" for remark in self.remarks]
        lines += ["", "## To know", "", *remarks] if remarks else []
        return "\n".join(lines)
