"""Has the settings of a recording as a source: those that source and scheduler share."""

from __future__ import annotations

from ofu_exporter.recordings import Options as Options

AUTO_RANK: int | None = None
