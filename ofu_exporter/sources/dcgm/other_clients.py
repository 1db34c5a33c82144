"""Finds the profiling fields that other clients of a host engine have sampled often.

Their polls decide when the samples are taken that all profiling fields of a device share: sample_times.py.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from ofu_exporter.sources.dcgm.fields import OF_OTHERS
from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import DcgmError, Entity

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Time between two looks."""


class OtherClients:
    """The fields of each device that others have sampled, as far as they were found."""

    def __init__(self, engine: HostEngine, often_seconds: float) -> None:
        self._engine = engine
        self._often_micros = often_seconds * 1e6
        self._looked_at = -math.inf
        self._found: set[tuple[Entity, int]] = set()

    def look(self, entities: Iterable[Entity], now: float) -> list[tuple[Entity, int]]:
        """Fields that were not found before. Raises DcgmError only when the connection is gone."""
        asked = list(entities)
        if not asked or now - self._looked_at < LOOK_SECONDS:
            return []
        self._looked_at = now
        try:
            samples = self._engine.latest(asked, OF_OTHERS)
        except DcgmError as error:
            if error.is_disconnected:
                raise
            log.debug("cannot find out what other clients watch: %s", error)
            return []
        # A field that nobody watches any more keeps its last sample.
        oldest = self._engine.wall() * 1e6 - self._often_micros
        often = {(s.entity, s.field) for s in samples if s.micros >= oldest}
        new = often - self._found
        self._found |= new
        return sorted(new)

    def forget(self, entity: Entity) -> None:
        """The device is watched anew."""
        self._found = {each for each in self._found if each[0] != entity}
