"""Describes the devices that a host engine sees on its node, whole GPUs and MIG instances, and their problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import (
    COMPUTE_INSTANCE,
    GPU,
    GPU_INSTANCE,
    TIMEOUT,
    DcgmInstance,
    Entity,
    RefusedError,
)
from ofu_exporter.values.gpu import Gpu, unnamed
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

Defect = tuple[Reason, str]
"""Why a device is not measured, and a sentence on it."""
UNTOLD: Defect = (Reason.BLANK, "the host engine has no information about this GPU")
"""The problem of a GPU that has not answered yet. It has to be described again."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that is measured by itself: a GPU that is not divided, or a GPU instance."""

    entity: Entity
    parent: Entity
    """The GPU whose clock the device runs at; a whole GPU itself."""
    gpu: Gpu
    gpm: bool
    """Whether the device's counters are read through GPM: Hopper and newer."""
    problem: Defect | None = None


@dataclass(frozen=True, slots=True)
class Census:
    """The GPUs and instances of a node, found with few calls. Devices are described again only when these have
    changed."""

    statuses: Mapping[int, int]
    """Status of every GPU by its number."""
    instances: tuple[DcgmInstance, ...]


def take_census(engine: HostEngine, before: Census | None) -> Census:
    """The GPUs and instances there are now; those of `before` where instances cannot be listed. Raises DcgmError."""
    statuses = {number: _status(engine, number) for number in engine.gpus()}
    try:
        return Census(statuses, tuple(engine.instances()))
    except RefusedError:
        return Census(statuses, before.instances if before else ())


def _status(engine: HostEngine, number: int) -> int:
    try:
        return engine.gpu_status(number)
    except RefusedError as error:
        if error.code == TIMEOUT:
            raise  # a host engine that does not answer would take as long for each further GPU
        return UNKNOWN  # the GPU's samples will show whether it works


def describe(engine: HostEngine, census: Census, described: Sequence[Device]) -> list[Device]:
    """Every device of a census. A GPU that no longer answers keeps its last description. Raises DcgmError."""
    before = {device.parent: device for device in described}
    devices: list[Device] = []
    for number, status in census.statuses.items():
        entity = Entity(GPU, number)
        if status in STATUS_REASONS:
            problem = STATUS_REASONS[status]
            last_known = [replace(d, problem=problem) for d in described if d.parent == entity]
            devices += last_known or [
                Device(entity, entity, _unknown(number), gpm=False, problem=problem)
            ]
            continue
        whole, divided = _described(engine, entity, before.get(entity))
        instances = _instances(engine, whole, census.instances)
        if divided and not instances:
            problem = (Reason.NO_INSTANCE, "MIG is on and there is no GPU instance")
            whole = replace(whole, problem=problem)
        devices += instances or [whole]
    return devices


def _unknown(number: int) -> Gpu:
    """A placeholder for a GPU that has never said which it is."""
    return Gpu(index=str(number), uuid=unnamed(str(number)))


def _described(engine: HostEngine, entity: Entity, before: Device | None) -> tuple[Device, bool]:
    """The whole GPU, and whether MIG is on."""
    values = _driver_values(engine, entity, IDENTITY)
    if NAME not in values or UUID not in values:
        if before is None or before.problem == UNTOLD:
            return Device(entity, entity, _unknown(entity.number), False, UNTOLD), False
        # The last description still holds.
        whole = replace(before.gpu, instance="", profile="", mig_uuid="")
        return replace(before, entity=entity, gpu=whole, problem=None), bool(before.gpu.instance)
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


def _instances(
    engine: HostEngine, whole: Device, instances: Sequence[DcgmInstance]
) -> list[Device]:
    """The GPU instances of a GPU. The whole GPU is not a device as well, or its time would count twice."""
    return [
        replace(
            whole,
            entity=one.entity,
            gpu=replace(
                whole.gpu,
                instance=str(one.instance),
                profile=_profile(engine, one.entity),
                mig_uuid=_mig_uuid(engine, one.entity, instances),
            ),
        )
        for one in instances
        if one.entity.group == GPU_INSTANCE and one.parent == whole.entity
    ]


def _profile(engine: HostEngine, instance: Entity) -> str:
    """The profile, such as 3g.40gb; the host engine gives it as the instance's name."""
    return str(_driver_values(engine, instance, (NAME,)).get(NAME, "")).removeprefix("MIG ")


def _mig_uuid(engine: HostEngine, instance: Entity, instances: Sequence[DcgmInstance]) -> str:
    """The instance's name in CUDA, which is its compute instance's; "" unless it has just one."""
    inner = [
        each.entity
        for each in instances
        if each.entity.group == COMPUTE_INSTANCE and each.parent == instance
    ]
    if len(inner) != 1:
        return ""
    fields = (UUID, VISIBLE_DEVICES)
    names = [_driver_values(engine, inner[0], (field,)).get(field) for field in fields]
    # The second has the old form, MIG-GPU-.../GI/CI, which no driver since R470 uses.
    return next((str(name) for name in names if str(name).startswith("MIG-")), "")


def _driver_values(
    engine: HostEngine, entity: Entity, fields: Sequence[int]
) -> dict[int, float | int | str]:
    """The driver's values of an entity; a field without a value is left out."""
    try:
        samples = engine.live(entity, fields)
    except RefusedError:
        if len(fields) == 1:
            return {}
        # The call answers for all fields or for none (DcgmApi.cpp, tsapiEntitiesGetLatestValues).
        return {
            k: v for field in fields for k, v in _driver_values(engine, entity, (field,)).items()
        }
    return {s.field: s.value for s in samples if s.value is not None}


def _has_gpm(engine: HostEngine, entity: Entity, capability: tuple[int, int] | None) -> bool:
    """Whether a GPU has GPM. Host engines since DCGM 4 say so; else the compute capability of Hopper decides."""
    supported = _driver_values(engine, entity, (GPM_SUPPORT,)).get(GPM_SUPPORT)
    return bool(supported) if supported is not None else (capability or (0, 0)) >= (9, 0)


def _capability(value: float | int | str | None) -> tuple[int, int] | None:
    """Major and minor version from one number. The headers pack it in two ways."""
    if not isinstance(value, int) or value <= 0:
        return None
    bits = 32 if value >> 32 else 16
    return value >> bits, value & ((1 << bits) - 1)
