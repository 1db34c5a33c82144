"""Makes the elementary terms that blocks consist of: matrices, tables, vectors, attention cores, convolutions, scans.

2 FLOPs per multiply-add; everything that is no matrix product, convolution or scan has parameters at most.
"""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.flops.terms import PER_TOKEN, Extent, Linear, Part, Term


def linear(  # noqa: PLR0913 - all that describes a linear layer
    name: str,
    part: Part,
    inputs: int,
    outputs: int,
    *,
    times: int = 1,
    used: int | None = None,
    bias: bool = False,
    extent: Extent = PER_TOKEN,
    in_layers: bool = True,
) -> Term:
    """A linear layer: 2 * inputs * outputs FLOPs per unit of the extent.

    The model stores `times` such layers; one token goes through `used` of them (default all).
    """
    used = times if used is None else used
    parameters = inputs * outputs + bias * outputs
    return Term(
        name,
        part,
        extent,
        flops=2 * inputs * outputs * used,
        parameters=parameters * times,
        active=parameters * used,
        in_layers=in_layers,
        linear=Linear(inputs, outputs, times, used),
    )


def outside(  # noqa: PLR0913 - like linear
    name: str,
    part: Part,
    inputs: int,
    outputs: int,
    extent: Extent = PER_TOKEN,
    *,
    times: int = 1,
    bias: bool = True,
) -> Term:
    """A linear layer before or after the layers, with bias unless it is said to have none."""
    return linear(
        name, part, inputs, outputs, times=times, bias=bias, extent=extent, in_layers=False
    )


def vector(name: str, parameters: int, in_layers: bool = True) -> Term:
    """Parameters without a matrix product: norms, biases of their own, positions."""
    return Term(name, Part.NORM, parameters=parameters, active=parameters, in_layers=in_layers)


def embedding(name: str, rows: int, width: int) -> Term:
    """A table that is looked up: rows * width parameters and no FLOPs."""
    parameters = rows * width
    return Term(name, Part.EMBEDDING, parameters=parameters, active=parameters, in_layers=False)


def core(
    query_key: int, value: int, times: int, extent: Extent, name: str = "attention.core"
) -> Term:
    """QK^T and PV: 2 * (query_key + value) FLOPs per pair, both widths summed over the heads."""
    return Term(name, Part.CORE, extent, flops=2 * (query_key + value) * times)


def depthwise(name: str, channels: int, kernel: int, times: int, bias: bool) -> Term:
    """A causal convolution of every channel on its own: 2 * kernel FLOPs per channel and token."""
    parameters = channels * (kernel + bias) * times
    flops = 2 * channels * kernel * times
    return Term(name, Part.CONVOLUTION, flops=flops, parameters=parameters, active=parameters)


def scan(name: str, flops: int) -> Term:
    """A recurrence over the sequence, with `flops` FLOPs per token."""
    return Term(name, Part.SCAN, flops=flops)


Norms = Callable[[int], int]
"""Returns the parameters of one norm over a number of features."""


def rms_norm(features: int) -> int:
    """One scale per feature (arXiv:1910.07467)."""
    return features


def no_norm(features: int) -> int:
    """A norm without parameters (OLMo, arXiv:2402.00838)."""
    return 0 * features


def layer_norm(features: int) -> int:
    """A scale and a shift per feature (arXiv:1607.06450)."""
    return 2 * features
