"""Reads the name of a precision as frameworks and people write it: bfloat16, bf16-mixed, torch.half, mxfp8, nvfp4."""

from __future__ import annotations

import re

from ofu_exporter.hardware.gpu_spec import PRECISIONS

_FORMS = {
    "bf16": r"b(f|float)16",
    "fp16": r"(fp|float|f)16|half|16",
    "fp64": r"(fp|float|f)64|double|64",
    "tf32": r"tf32|tensorfloat32",
    "fp8": r"(mx)?(fp|float|f)8|(float8_?)?e[45]m[23](fn|fnuz)?|transformer[-_]?engine",
    "fp4": r"(nv|mx)?(fp|float|f)4|(float4_?)?e2m1(fn)?",
    "fp6": r"(mx)?(fp|float|f)6",
    "int8": r"int8|i8",
    "int4": r"int4|i4",
}
_AROUND = re.compile(r"^(torch|jnp|jax\.numpy|np)\.|[-_ ](mixed|true|hybrid|delayed|blockwise|cs)$")
"""What frameworks put before and after: torch.bfloat16, bf16-mixed, fp8_hybrid."""


def precision(text: str) -> str:
    """The precision of the GPU table; the text itself where it is none."""
    if text in PRECISIONS:
        return text
    bare = _AROUND.sub("", text.strip().casefold())
    if bare in PRECISIONS:
        return bare
    return next((name for name, form in _FORMS.items() if re.fullmatch(form, bare)), text)


def unknown(text: str) -> str:
    """Why a text is no precision."""
    precisions = ", ".join(PRECISIONS)
    if re.fullmatch(r"(fp|float|f)?32|single", _AROUND.sub("", text.strip().casefold())):
        return f"{text!r} has no tensor pipes: tf32, if the job allows it; known: {precisions}"
    return f"{text!r} is not known; known: {precisions}"
