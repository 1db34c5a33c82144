"""Fills the templates of pages: every value is escaped, and what is not printable is shown by its escape."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ofu_exporter.support.percent import percent
from ofu_exporter.values.reported import too_little
from ofu_exporter.values.text import shown

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parents[1] / "templates"
_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


def render(template: str, **view: object) -> str:
    """The template of this file name with these values. A value that it names and that is not given is an error."""
    return environment().get_template(template).render(view).strip() + "\n"


def asset(*names: str) -> str:
    """Style sheets or scripts one after another, without indentation, as they stand in a page."""
    return "\n".join(_narrow((FOLDER / name).read_text("utf-8")) for name in names)


@cache
def environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - 2 MiB
    from markupsafe import Markup  # noqa: PLC0415 - an agent whose pages nobody looks at needs neither

    def printable(value: object) -> object:
        if value is None:
            return ""
        return value if isinstance(value, Markup) else shown(str(value))

    class Templates(FileSystemLoader):
        """Without their indentation, pages are a fifth smaller."""

        def get_source(self, environment: Environment, template: str):  # type: ignore[no-untyped-def]
            source, path, is_fresh = super().get_source(environment, template)
            return _narrow(source), path, is_fresh

    templates = Environment(
        loader=Templates(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        auto_reload=False,
    )
    templates.filters["percent"] = percent
    templates.globals["too_little"] = too_little
    templates.globals["asset"] = lambda *names: Markup(asset(*names))  # our own files
    return templates


def _narrow(text: str) -> str:
    return _INDENTATION.sub("", text)
