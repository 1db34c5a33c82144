"""Chooses the source that reads each GPU: the first of the candidates that can measure it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason

UNABLE = frozenset(
    {
        Reason.NOT_SUPPORTED,
        Reason.DRIVER_TOO_OLD,
        Reason.VGPU,
        Reason.NO_TENSOR_PIPES,
        Reason.NO_PERMISSION,
        Reason.NO_TENSOR_COUNTER,
    }
)
"""Reasons why a source cannot measure a GPU that another source may measure. Temporary problems are not among them."""

MOST_ANSWERS = 16_384
"""Most GPUs of sources that are remembered: a page that names other GPUs each time must not fill the memory."""

Named = Mapping[str, Sequence[Gpu]]
"""The GPUs that each open source names, best source first."""


class SourceChoice:
    """Remembers which source can measure which GPU, by the uuid that a GPU shares with its instances."""

    def __init__(self) -> None:
        self._able: dict[tuple[str, str], bool] = {}

    def take(self, source: str, events: Iterable[Reading | Fault]) -> None:
        """Learn from what a source measured. A GPU can be measured when one of its instances can."""
        able_of: dict[str, list[bool]] = {}
        for event in events:
            able = isinstance(event, Reading) or event.reason not in UNABLE
            able_of.setdefault(event.gpu.uuid, []).append(able)
        for uuid, each in able_of.items():
            self._able.pop((source, uuid), None)  # those not heard of for longest come first
            self._able[source, uuid] = any(each)
        for _ in range(len(self._able) - MOST_ANSWERS):
            del self._able[next(iter(self._able))]

    def forget(self, source: str) -> None:
        self._able = {key: able for key, able in self._able.items() if key[0] != source}

    def readers(self, named: Named) -> dict[str, str]:
        """The source that reads each uuid: the first that may be able to, otherwise the first."""
        return {
            uuid: next((s for s in naming if self._able.get((s, uuid), True)), naming[0])
            for uuid, naming in _naming(named).items()
        }

    def unmeasured(self, named: Named) -> list[str]:
        """The uuids that none of the sources that name them can measure."""
        readers = self.readers(named)
        return [
            uuid for uuid, source in readers.items() if not self._able.get((source, uuid), True)
        ]

    def waits(self, named: Named) -> bool:
        """Whether a GPU was passed on to a source that has not answered for it yet."""
        first = next(iter(named), None)
        readers = self.readers(named)
        return any(s != first and (s, uuid) not in self._able for uuid, s in readers.items())

    def has_answered(self, source: str, gpus: Sequence[Gpu]) -> bool:
        """Whether a source has answered for every GPU that it names."""
        return all((source, gpu.uuid) in self._able for gpu in gpus)


def identified(named: Named) -> Named:
    """Without a GPU that has not said to one source which it is, and has to another."""
    indices = {gpu.index for gpus in named.values() for gpu in gpus if not gpu.is_unnamed}
    return {
        source: [gpu for gpu in gpus if not (gpu.is_unnamed and gpu.index in indices)]
        for source, gpus in named.items()
    }


def chosen(named: Named, readers: Mapping[str, str]) -> list[Gpu]:
    """Every GPU, as the source that reads it describes it."""
    gpus_of: dict[str, list[Gpu]] = {uuid: [] for uuid in readers}
    for source, gpus in named.items():
        for gpu in gpus:
            if readers[gpu.uuid] == source:
                gpus_of[gpu.uuid].append(_with_names(gpu, named))
    return [gpu for of_uuid in gpus_of.values() for gpu in of_uuid]


def _with_names(gpu: Gpu, named: Named) -> Gpu:
    """The GPU with the names by which schedulers call it, from any source: dcgm-exporter's page has neither.

    A minor number belongs to the whole GPU, also where the other source does not name its instances.
    """
    if gpu.minor is not None and (gpu.mig_uuid or not gpu.instance):
        return gpu
    others = [other for gpus in named.values() for other in gpus if other.uuid == gpu.uuid]
    minors = (other.minor for other in others if other.minor is not None)
    mig_uuids = (other.mig_uuid for other in others if other.key == gpu.key and other.mig_uuid)
    minor = next(minors, None) if gpu.minor is None else gpu.minor
    mig_uuid = gpu.mig_uuid or next(mig_uuids, "")
    if (minor, mig_uuid) == (gpu.minor, gpu.mig_uuid):
        return gpu  # as at every tick of a source that stands alone
    return replace(gpu, minor=minor, mig_uuid=mig_uuid)


def _naming(named: Named) -> dict[str, list[str]]:
    """The sources that name each uuid, best source first."""
    naming: dict[str, list[str]] = {}
    for source, gpus in named.items():
        for uuid in {gpu.uuid: None for gpu in gpus}:
            naming.setdefault(uuid, []).append(source)
    return naming
