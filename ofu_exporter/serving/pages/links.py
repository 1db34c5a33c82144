"""Says where the page of a job is."""

from __future__ import annotations

from urllib.parse import quote


def job_path(job_id: str) -> str:
    """The path of a job's page, whatever its name has."""
    return "/jobs/" + quote(job_id.encode("utf-8", "replace"))
