"""Where a page can be read is said by the metadata of a release, as deploy/project.py writes them."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import PackageNotFoundError

import pytest

from deploy.project import Project, addresses
from ofu_exporter.support import documentation

HOME = "https://git.example.com/gpus/ofu-exporter"


@pytest.fixture(autouse=True)
def _looked_up_anew() -> None:
    documentation.home.cache_clear()


def test_a_release_leads_to_the_pages_of_its_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Message()
    for name, url in addresses(Project(home=HOME), "1.2.0").items():
        told["Project-URL"] = f"{name}, {url}"
    monkeypatch.setattr(documentation, "metadata", lambda _: told)
    assert documentation.address("docs/jobs.md") == f"{HOME}/tree/v1.2.0/docs/jobs.md"
    documentation.home.cache_clear()


@pytest.mark.parametrize("is_installed", [True, False])
def test_where_nobody_says_there_is_the_path(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    def read(_: str) -> Message:
        if not is_installed:
            raise PackageNotFoundError
        return Message()

    monkeypatch.setattr(documentation, "metadata", read)
    assert documentation.address("docs/jobs.md") == "docs/jobs.md"
    documentation.home.cache_clear()
