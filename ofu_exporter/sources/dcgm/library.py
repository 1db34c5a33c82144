"""Binds libdcgm, the client library of NVIDIA's DCGM, versions 3 and 4 alike.

Layouts, version words and codes are those of dcgm_structs.h and dcgm_agent.h; those used here are the same from 3.1 to
4.6. Profiling fields are only watched, never read live: a live call for one crashes the host engine (4.0 to 4.6), and
with it the service for all its users on the node.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping, Sequence
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longlong,
    c_size_t,
    c_uint,
    c_ushort,
    c_void_p,
    sizeof,
)
from typing import Any, NamedTuple

from ofu_exporter.values.reasons import Reason

SONAMES = ("libdcgm.so.4", "libdcgm.so.3")

FIRST_PROFILING_FIELD = 1001

# dcgm_fields.h, dcgm_field_entity_group_t
GPU, GPU_INSTANCE, COMPUTE_INSTANCE = 1, 4, 5

# dcgm_structs.h, dcgmReturn_t
NOT_SUPPORTED, NO_DATA, NOT_WATCHED, NO_PERMISSION, GPU_IS_LOST = -6, -14, -16, -17, -18
TIMEOUT = -11
FUNCTION_NOT_FOUND, CONNECTION_NOT_VALID, LIBRARY_NOT_FOUND = -20, -21, -25
REASONS: Mapping[int, Reason] = {
    NOT_SUPPORTED: Reason.NOT_SUPPORTED,
    -7: Reason.FAILED,
    -10: Reason.UNREACHABLE,  # uninitialized: the connection is gone, or was never made
    TIMEOUT: Reason.HUNG,
    -12: Reason.DRIVER_MISMATCH,  # the library and the host engine are of different versions
    -13: Reason.NOT_SUPPORTED,  # unknown field
    NO_DATA: Reason.BLANK,
    -15: Reason.STALE,
    NOT_WATCHED: Reason.STALE,
    NO_PERMISSION: Reason.NO_PERMISSION,
    GPU_IS_LOST: Reason.LOST,
    -19: Reason.LOST,  # reset required
    FUNCTION_NOT_FOUND: Reason.NOT_SUPPORTED,
    CONNECTION_NOT_VALID: Reason.UNREACHABLE,
    -22: Reason.NOT_SUPPORTED,
    LIBRARY_NOT_FOUND: Reason.NO_LIBRARY,
    -29: Reason.NO_PERMISSION,  # profiling GPUs before Hopper needs a host engine that runs as root
    -33: Reason.NOT_SUPPORTED,  # the closed module that profiles GPUs before Hopper is missing
    -34: Reason.COUNTER_BUSY,  # in use
    -36: Reason.NOT_SUPPORTED,
    -44: Reason.DRIVER_TOO_OLD,
    -54: Reason.COUNTER_BUSY,  # paused
    -56: Reason.NO_DRIVER,
    -57: Reason.HUNG,  # the driver does not answer the host engine
    -67: Reason.NO_DRIVER,  # the host engine has let go of the driver
}

OF_ONE_ENTITY = frozenset((-1, -3, -8, NOT_WATCHED, NO_PERMISSION, GPU_IS_LOST, -19))
"""Codes that end a read at one entity and say nothing about the others: bad parameter, generic, NVML's, ..."""

# Blank values; the three after each mean not found, not supported, not permitted.
BLANK_INT32, BLANK_INT64, BLANK_FP64 = 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 2.0**47
BLANK_CODES = (NO_DATA, NO_DATA, NOT_SUPPORTED, NO_PERMISSION)

MOST_DEVICES = 32
MOST_HIERARCHY_ENTRIES = 448
OPERATION_MODE_AUTO, EMPTY_GROUP, LIVE_DATA = 1, 1, 1


class Entity(NamedTuple):
    """What the host engine measures: a GPU, or an instance of one."""

    group: int
    number: int


class Sample(NamedTuple):
    """One value of one field of one entity."""

    entity: Entity
    field: int
    code: int
    """0 if `value` was measured; otherwise the code that the blank stands for."""
    micros: int
    """Microseconds since 1970, on the host engine's clock."""
    value: float | int | str | None


class DcgmInstance(NamedTuple):
    """A MIG GPU instance or compute instance."""

    entity: Entity
    parent: Entity
    instance: int
    """Number of the GPU instance on its GPU."""


class DcgmError(Exception):
    """A call that failed. Where it is no `RefusedError`, the connection is gone."""

    def __init__(self, call: str, code: int, text: str = "") -> None:
        super().__init__(f"{call}: {text or 'error'} ({code})")
        self.code = code
        self.reason = REASONS.get(code, Reason.FAILED)


class RefusedError(DcgmError):
    """A call that DCGM refused on a connection that lasts."""


def failure(call: str, code: int, text: str = "") -> DcgmError:
    """The error of a call that returned this code."""
    is_gone = REASONS.get(code) is Reason.UNREACHABLE
    return (DcgmError if is_gone else RefusedError)(call, code, text)


class _Value(ctypes.Union):
    _fields_ = (("i64", c_int64), ("dbl", c_double), ("str", c_char * 256), ("blob", c_char * 4096))


class FieldValue1(Structure):
    """dcgmFieldValue_v1, 4120 bytes."""

    _fields_ = (
        *(("version", c_uint), ("field", c_ushort), ("type", c_ushort), ("status", c_int)),
        *(("micros", c_int64), ("value", _Value)),
    )


class FieldValue2(Structure):
    """dcgmFieldValue_v2, 4128 bytes."""

    _fields_ = (
        *(("version", c_uint), ("group", c_uint), ("number", c_uint), ("field", c_ushort)),
        *(("type", c_ushort), ("status", c_int), ("micros", c_int64), ("value", _Value)),
    )


class ConnectParameters(Structure):
    """dcgmConnectV2Params_v2, 16 bytes."""

    _fields_ = (
        *(("version", c_uint), ("persist_after_disconnect", c_uint)),
        *(("timeout_ms", c_uint), ("address_is_unix_socket", c_uint)),
    )


class EmbeddedParameters(Structure):
    """dcgmStartEmbeddedV2Params_v2, 80 bytes."""

    _fields_ = (
        *(("version", c_uint), ("mode", c_int), ("handle", c_size_t), ("log_file", c_char_p)),
        *(("severity", c_int), ("deny_count", c_uint), ("service_account", c_char_p)),
        ("deny", c_uint * 10),
    )


class EntityPair(Structure):
    """dcgmGroupEntityPair_t, 8 bytes."""

    _fields_ = (("group", c_uint), ("number", c_uint))


class HierarchyEntry(Structure):
    """dcgmMigHierarchyInfo_v2, 164 bytes."""

    _fields_ = (
        *(("entity", EntityPair), ("parent", EntityPair), ("gpu_uuid", c_char * 128)),
        *(("gpu_index", c_uint), ("instance", c_uint), ("compute_instance", c_uint)),
        *(("profile", c_uint), ("slices", c_uint)),
    )


class Hierarchy(Structure):
    """dcgmMigHierarchy_v2, 73480 bytes."""

    _fields_ = (
        *(("version", c_uint), ("count", c_uint)),
        ("entries", HierarchyEntry * MOST_HIERARCHY_ENTRIES),
    )


Enumeration = ctypes.CFUNCTYPE(c_int, c_int, c_uint, POINTER(FieldValue1), c_int, c_void_p)

Handle = c_size_t
"""Handle of a connection, a group or a group of fields: pointer-sized."""

_ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "dcgmInit": (),
    "dcgmShutdown": (),
    "dcgmConnect_v2": (c_char_p, POINTER(ConnectParameters), POINTER(Handle)),
    "dcgmDisconnect": (Handle,),
    "dcgmStartEmbedded_v2": (POINTER(EmbeddedParameters),),
    "dcgmStopEmbedded": (Handle,),
    "dcgmGetAllDevices": (Handle, POINTER(c_uint), POINTER(c_int)),
    "dcgmGetGpuStatus": (Handle, c_uint, POINTER(c_int)),
    "dcgmGetGpuInstanceHierarchy": (Handle, POINTER(Hierarchy)),
    "dcgmGroupCreate": (Handle, c_int, c_char_p, POINTER(Handle)),
    "dcgmGroupAddEntity": (Handle, Handle, c_int, c_uint),
    "dcgmGroupRemoveEntity": (Handle, Handle, c_int, c_uint),
    "dcgmGroupDestroy": (Handle, Handle),
    "dcgmFieldGroupCreate": (Handle, c_int, POINTER(c_ushort), c_char_p, POINTER(Handle)),
    "dcgmFieldGroupDestroy": (Handle, Handle),
    "dcgmWatchFields": (Handle, Handle, Handle, c_longlong, c_double, c_int),
    "dcgmUnwatchFields": (Handle, Handle, Handle),
    "dcgmGetValuesSince_v2": (
        *(Handle, Handle, Handle, c_longlong),
        *(POINTER(c_longlong), Enumeration, c_void_p),
    ),
    "dcgmEntitiesGetLatestValues": (
        *(Handle, POINTER(EntityPair), c_uint, POINTER(c_ushort), c_uint, c_uint),
        POINTER(FieldValue2),
    ),
    "dcgmProfPause": (Handle,),
    "dcgmProfResume": (Handle,),
}


def version_word(structure: type[Structure], version: int) -> int:
    """Size and version in one word, like DCGM's MAKE_DCGM_VERSION."""
    return sizeof(structure) | version << 24


def decoded(entity: Entity, raw: Any) -> Sample:
    """The sample in one of DCGM's field values. A blank arrives with status 0, and is recognised by its value."""
    kind = chr(raw.type)
    value: float | int | str = raw.value.dbl if kind == "d" else raw.value.i64
    if kind == "s":
        value = raw.value.str.decode(errors="replace")
    code = raw.status or _blank_code(raw.field, value)
    return Sample(entity, raw.field, code, raw.micros, None if code else value)


def _blank_code(field: int, value: float | int | str) -> int:
    """The code that a blank value stands for; 0 for a value that was measured."""
    if isinstance(value, str):
        return NO_DATA if value.startswith("<<<") and ">>>" in value else 0
    if isinstance(value, float):
        base = BLANK_FP64
    elif value >= BLANK_INT64:
        base = BLANK_INT64
    elif field < FIRST_PROFILING_FIELD and BLANK_INT32 <= value < BLANK_INT32 + 4:
        base = BLANK_INT32  # a cycle counter may reach these values
    else:
        return 0
    if not value >= base:  # NaN is not a blank: the user of the value decides what it means
        return 0
    offset = int(min(value - base, 4))
    return BLANK_CODES[offset] if offset < len(BLANK_CODES) else NO_DATA


class Library:
    """libdcgm itself, loaded and initialised. Raises DcgmError."""

    def __init__(self) -> None:
        self._library = _loaded()
        self.call("dcgmInit")

    def close(self) -> None:
        """Never raises."""
        self.try_call("dcgmShutdown")

    def call(self, name: str, *arguments: Any) -> None:
        """Make a call. Raises DcgmError when it does not succeed."""
        function = getattr(self._library, name, None)
        if function is None:
            raise RefusedError(name, FUNCTION_NOT_FOUND, "this libdcgm has no such call")
        function.argtypes, function.restype = _ARGUMENTS[name], c_int
        code = function(*arguments)
        if code != 0:
            raise failure(name, code, self._describe(code))

    def try_call(self, name: str, *arguments: Any) -> None:
        """Make a call that may fail without harm."""
        with contextlib.suppress(DcgmError):
            self.call(name, *arguments)

    def _describe(self, code: int) -> str:
        describe = getattr(self._library, "errorString", None)
        if describe is None:
            return ""
        describe.argtypes, describe.restype = (c_int,), c_char_p
        return (describe(code) or b"").decode(errors="replace")


def _loaded() -> ctypes.CDLL:
    errors = []
    for name in SONAMES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            errors.append(str(error))
    raise RefusedError("loading libdcgm", LIBRARY_NOT_FOUND, "; ".join(errors))


def field_numbers(fields: Sequence[int]) -> Any:
    """A C array of field numbers."""
    return (c_ushort * len(fields))(*fields)
