"""Says where a page of the documentation can be read: a release knows where the project lives."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

PACKAGE = "ofu-exporter"


@cache
def home() -> str:
    """What stands before docs/ in the address of a page, with a slash at its end; empty where nobody says."""
    try:
        urls = metadata(PACKAGE).get_all("Project-URL") or ()
    except PackageNotFoundError:
        return ""
    addresses: dict[str, str] = dict(each.partition(", ")[::2] for each in urls)
    return addresses.get("Documentation", "").removesuffix("docs")


def address(path: str) -> str:
    """The address of a page by its path, as docs/jobs.md; the path itself where no more is known."""
    return f"{home()}{path}"
