"""Reads the files of ended jobs, each of them once, because they never change."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.schedulers.slurm import ended_files
from ofu_exporter.schedulers.slurm.ended_files import EndedName
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.schedulers.slurm.trusted_files import Contents, Refusal, Refused


class EndedReader:
    """Remembers what it has read while the files exist."""

    def __init__(self) -> None:
        self._known: dict[str, JobFile | Refusal] = {}

    def read(self, folder: Path) -> Contents[JobFile]:
        """The files of the folder, the last to end last. Raises SchedulerError and OSError."""
        directory = folder.parent
        names = ended_files.names(directory)[-ended_files.MOST_KEPT :]
        read = {each.name: self._known.get(each.name) or _read(directory, each) for each in names}
        self._known = {name: known for name, known in read.items() if known is not None}
        contents: Contents[JobFile] = Contents()
        for name, known in self._known.items():
            if isinstance(known, Refusal):
                contents.refused.append(known)
            else:
                contents.values[name] = known
        return contents


def _read(directory: Path, ended: EndedName) -> JobFile | Refusal | None:
    """A file's content; None when it is gone."""
    try:
        return ended_files.read_one(directory, ended)
    except Refused as refused:
        return Refusal(ended.name, 0, refused.reason, refused.detail)
    except FileNotFoundError:
        return None
