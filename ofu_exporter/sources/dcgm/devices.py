"""What a host engine sees on its node: whole GPUs and MIG instances, described, and what is wrong with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import (
    COMPUTE_INSTANCE,
    GPU,
    GPU_INSTANCE,
    TIMEOUT,
    DcgmError,
    DcgmInstance,
    Entity,
)
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason

# dcgm_fields.h; none of them is a profiling field
DRIVER_VERSION, NAME, INDEX, UUID, MINOR = 1, 50, 52, 54, 55
PCI_BUS_ID, PCI_COMBINED_ID, COMPUTE_CAPABILITY, MIG_MODE = 57, 58, 63, 67
VISIBLE_DEVICES, GPM_SUPPORT, MAX_SM_CLOCK_MHZ, MEMORY_MIB = 68, 94, 113, 250
IDENTITY = (
    *(DRIVER_VERSION, NAME, INDEX, UUID, MINOR, PCI_BUS_ID, PCI_COMBINED_ID),
    *(COMPUTE_CAPABILITY, MIG_MODE, MAX_SM_CLOCK_MHZ, MEMORY_MIB),
)

# DcgmEntityStatus_t
UNKNOWN = 0
STATUS_REASONS: Mapping[int, tuple[Reason, str]] = {
    2: (Reason.NOT_SUPPORTED, "DCGM does not support this GPU"),
    3: (Reason.NO_PERMISSION, "the host engine cannot reach this GPU"),
    4: (Reason.LOST, "the host engine has lost this GPU"),
    6: (Reason.NOT_SUPPORTED, "the host engine was told to leave this GPU alone"),
    7: (Reason.NO_DRIVER, "the host engine has let go of this GPU's driver"),
}

Problem = tuple[Reason, str]
"""Why a device is not measured, and what is known of it."""
UNTOLD: Problem = (Reason.BLANK, "the host engine tells nothing of this GPU")
"""For now: what it is has to be asked again."""


@dataclass(frozen=True, slots=True)
class Device:
    """What gets a row of its own: a GPU that is not divided, or a GPU instance."""

    entity: Entity
    parent: Entity
    """The GPU, whose clock it runs at; the same entity for a whole GPU."""
    gpu: Gpu
    gpm: bool
    """Whether its counters are read through GPM: Hopper and newer."""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Census:
    """What there is, told in few calls; devices are described anew only when it changed."""

    statuses: Mapping[int, int]
    """Of every GPU by its number."""
    instances: tuple[DcgmInstance, ...]


def count(engine: HostEngine, before: Census | None = None) -> Census:
    """What there is now; instances that cannot be counted are those of before. Raises DcgmError."""
    statuses = {number: _status(engine, number) for number in engine.gpus()}
    return Census(statuses, _instances(engine, before.instances if before else ()))


def _status(engine: HostEngine, number: int) -> int:
    try:
        return engine.gpu_status(number)
    except DcgmError as error:
        if error.is_disconnected or error.code == TIMEOUT:
            raise  # asked for the next GPU, a host engine that does not answer takes as long again
        return UNKNOWN  # its samples will tell


def _instances(engine: HostEngine, before: tuple[DcgmInstance, ...]) -> tuple[DcgmInstance, ...]:
    try:
        return tuple(engine.instances())
    except DcgmError as error:
        if error.is_disconnected:
            raise
        return before


def describe(engine: HostEngine, census: Census, known: Sequence[Device]) -> list[Device]:
    """Every device of a census; a GPU that cannot be asked any more is who it was. Raises DcgmError."""
    before = {device.parent: device for device in known}
    devices: list[Device] = []
    for number, status in census.statuses.items():
        entity = Entity(GPU, number)
        if status in STATUS_REASONS:
            problem = STATUS_REASONS[status]
            kept = [replace(d, problem=problem) for d in known if d.parent == entity]
            devices += kept or [
                Device(entity, entity, _unknown(number), gpm=False, problem=problem)
            ]
            continue
        whole, divided = _described(engine, entity, before.get(entity))
        parts = _parts(engine, whole, census.instances)
        if divided and not parts:
            problem = (Reason.NO_INSTANCE, "MIG is on and there is no GPU instance")
            whole = replace(whole, problem=problem)
        devices += parts or [whole]
    return devices


def _unknown(number: int) -> Gpu:
    """A GPU that was never well enough to say who it is."""
    return Gpu(index=str(number), uuid=f"index-{number}")


def _described(engine: HostEngine, entity: Entity, known: Device | None) -> tuple[Device, bool]:
    """The whole GPU, and whether MIG is on."""
    values = _asked(engine, entity, IDENTITY)
    if NAME not in values or UUID not in values:
        if known is None or known.problem == UNTOLD:
            return Device(entity, entity, _unknown(entity.number), False, UNTOLD), False
        whole = replace(known.gpu, instance="", profile="", mig_uuid="")  # it is who it was
        return replace(known, entity=entity, gpu=whole, problem=None), bool(known.gpu.instance)
    capability = _capability(values.get(COMPUTE_CAPABILITY))
    pci_id, max_mhz = values.get(PCI_COMBINED_ID), values.get(MAX_SM_CLOCK_MHZ)
    memory, minor = values.get(MEMORY_MIB), values.get(MINOR)
    gpu = Gpu(
        index=str(values.get(INDEX, entity.number)),
        uuid=str(values[UUID]),
        name=str(values[NAME]),
        pci_bus_id=str(values.get(PCI_BUS_ID, "")),
        pci_device_id=f"{pci_id >> 16 & 0xFFFF:04x}" if isinstance(pci_id, int) else "",
        driver=str(values.get(DRIVER_VERSION, "")),
        compute_capability=capability,
        max_sm_clock_hz=max_mhz * 1e6 if isinstance(max_mhz, int) and max_mhz > 0 else None,
        memory_bytes=memory << 20 if isinstance(memory, int) else None,
        minor=minor if isinstance(minor, int) else None,
    )
    gpm = _has_gpm(engine, entity, capability)
    return Device(entity, entity, gpu, gpm), values.get(MIG_MODE) == 1


def _parts(engine: HostEngine, whole: Device, instances: Sequence[DcgmInstance]) -> list[Device]:
    """The GPU instances of a GPU: the whole has no row beside them, it would be counted twice."""
    return [
        replace(
            whole,
            entity=part.entity,
            gpu=replace(
                whole.gpu,
                instance=str(part.instance),
                profile=_profile(engine, part.entity),
                mig_uuid=_mig_uuid(engine, part.entity, instances),
            ),
        )
        for part in instances
        if part.entity.group == GPU_INSTANCE and part.parent == whole.entity
    ]


def _profile(engine: HostEngine, part: Entity) -> str:
    """Such as 3g.40gb; the host engine gives it as the instance's name."""
    return str(_asked(engine, part, (NAME,)).get(NAME, "")).removeprefix("MIG ")


def _mig_uuid(engine: HostEngine, part: Entity, instances: Sequence[DcgmInstance]) -> str:
    """What CUDA calls the instance: a name of its compute instance, told only when it has just one."""
    inner = [
        each.entity
        for each in instances
        if each.entity.group == COMPUTE_INSTANCE and each.parent == part
    ]
    if len(inner) != 1:
        return ""
    told = [_asked(engine, inner[0], (field,)).get(field) for field in (UUID, VISIBLE_DEVICES)]
    # The second is put together in the old way, MIG-GPU-.../GI/CI, which no driver since R470 uses.
    return next((str(name) for name in told if str(name).startswith("MIG-")), "")


def _asked(
    engine: HostEngine, entity: Entity, fields: Sequence[int]
) -> dict[int, float | int | str]:
    """What the driver tells of an entity; what it does not tell is left out."""
    try:
        samples = engine.live([entity], fields)
    except DcgmError as error:
        if error.is_disconnected:
            raise
        if len(fields) == 1:
            return {}
        # All or nothing: a field for which there is no answer takes the others with it
        # (DcgmApi.cpp, tsapiEntitiesGetLatestValues).
        return {k: v for field in fields for k, v in _asked(engine, entity, (field,)).items()}
    return {s.field: s.value for s in samples if s.value is not None}


def _has_gpm(engine: HostEngine, entity: Entity, capability: tuple[int, int] | None) -> bool:
    """Since DCGM 4 the host engine tells; before, Hopper is known by its compute capability."""
    told = _asked(engine, entity, (GPM_SUPPORT,)).get(GPM_SUPPORT)
    return bool(told) if told is not None else (capability or (0, 0)) >= (9, 0)


def _capability(value: float | int | str | None) -> tuple[int, int] | None:
    """Major and minor version in one number; the headers tell two ways of packing it."""
    if not isinstance(value, int) or value <= 0:
        return None
    bits = 32 if value >> 32 else 16
    return value >> bits, value & ((1 << bits) - 1)
