"""Every job has a page, whatever its name."""

from __future__ import annotations

import re

import pytest

from ofu_exporter.serving.pages.links import job_path


@pytest.mark.parametrize("job_id", ["a/b", "x y", "\ud800", "<b>", '"', "ns/pod-0"])
def test_a_job_has_a_page_whatever_its_name(job_id: str) -> None:
    assert re.fullmatch(r"/jobs/[\w%/.?-]+", job_path(job_id))
