"""Counts single modules, from which counts of other models are built: convolutions, RNNs, linear, embedding, norms.

Each function makes a term of one forward pass per sample; its arguments are named as in torch.nn, and it raises
ConfigError for a size below 1. Biases, activations and gates' products are left out like everywhere in this package.
DeepSpeed's flops profiler (`profiler.py`) counts the same products and adds some of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.terms import Extent, Linear, Part, Per, Term

SAMPLE = "samples"
PER_SAMPLE = Extent(Per.SEQUENCE, SAMPLE)

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Matrices per side of a recurrent cell: torch.nn.RNN, GRU, LSTM."""


def _each(name: str, value: int | Sequence[int], dims: int, least: int) -> tuple[int, ...]:
    """One value per dimension. Raises ConfigError, which names the argument."""
    values = (value,) * dims if isinstance(value, int) else tuple(value)
    if len(values) != dims:
        raise ConfigError(f"{name}: {len(values)} values for {dims} dimensions")
    for number in values:
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ConfigError(f"{name}: {number!r} is not a whole number of at least {least}")
    return values


def _positive(**sizes: int) -> None:
    for name, value in sizes.items():
        _each(name, value, 1, 1)


def output_size(
    input_size: Sequence[int],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> tuple[int, ...]:
    """The spatial size of a convolution's output: (size + 2 padding - dilation (kernel - 1) - 1) // stride + 1.

    So torch.nn.Conv1d-3d have it; 'valid' is padding 0. 'same' pads dilation (kernel - 1) in sum, unevenly if that is
    odd, so the output is as large as the input. Raises ConfigError for an unknown padding (neither a number, 'same' nor
    'valid'), 'same' with a stride, and a kernel that is larger than its padded input.
    """
    dims = len(input_size)
    sizes = _each("input_size", input_size, dims, 1)
    kernels, strides = _each("kernel_size", kernel_size, dims, 1), _each("stride", stride, dims, 1)
    dilations = _each("dilation", dilation, dims, 1)
    if padding == "same":
        if any(step != 1 for step in strides):
            raise ConfigError(f"padding: 'same' needs stride 1, not {stride}")
        return sizes
    if isinstance(padding, str) and padding != "valid":
        raise ConfigError(f"padding: {padding!r} is not known; known: 'same', 'valid', numbers")
    pads = _each("padding", 0 if isinstance(padding, str) else padding, dims, 0)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernels, strict=True)]
    room = [size + 2 * pad - span for size, pad, span in zip(sizes, pads, reach, strict=True)]
    if min(room, default=0) < 0:
        raise ConfigError(f"kernel_size: {kernel_size} reaches beyond the padded input {sizes}")
    return tuple(free // step + 1 for free, step in zip(room, strides, strict=True))


def convolution(  # noqa: PLR0913 - the arguments of torch.nn.Conv1d-3d
    in_channels: int,
    out_channels: int,
    kernel_size: int | Sequence[int],
    input_size: Sequence[int],
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    bias: bool = True,
    transposed: bool = False,
    name: str = "convolution",
) -> Term:
    """A convolution over one sample of `input_size` (L, HxW or DxHxW).

    Multiply-adds: out_channels * output positions * in_channels/groups * prod(kernel). Transposed: every *input*
    position is multiplied, in_channels * input positions * out_channels/groups * prod(kernel). Padding that is
    multiplied by zero counts, as the kernels execute it. Raises ConfigError for sizes below 1, groups that don't
    divide, and what `output_size` refuses.
    """
    _positive(in_channels=in_channels, out_channels=out_channels, groups=groups)
    if in_channels % groups or out_channels % groups:
        both = f"in_channels {in_channels} and out_channels {out_channels}"
        raise ConfigError(f"groups: {groups} must divide {both}")
    dims = len(input_size)
    if not 1 <= dims <= 3:
        raise ConfigError(f"input_size: {tuple(input_size)} has {dims} dimensions; known: 1, 2, 3")
    kernel = prod(_each("kernel_size", kernel_size, dims, 1))
    weights = out_channels * (in_channels // groups) * kernel
    if transposed:
        # Stride, padding and dilation only place the products, whose number follows from the input.
        _each("stride", stride, dims, 1)
        positions = prod(_each("input_size", input_size, dims, 1))
    else:
        positions = prod(output_size(input_size, kernel_size, stride, padding, dilation))
    parameters = weights + bias * out_channels
    flops = 2 * weights * positions
    return Term(name, Part.CONVOLUTION, PER_SAMPLE, flops, parameters, parameters)


def recurrent(  # noqa: PLR0913 - the arguments of torch.nn.LSTM
    kind: str,
    input_size: int,
    hidden_size: int,
    sequence_length: int,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    proj_size: int = 0,
    bias: bool = True,
    name: str = "",
) -> Term:
    """An RNN, GRU or LSTM over one sequence.

    Multiply-adds per layer, direction and step: gates * H * (inputs + recurrent) with 1, 3 or 4 gates; LSTM with a
    projection: recurrent = proj, and H * proj more. From the second layer on the inputs are the outputs of all
    directions below. Raises ConfigError for an unknown kind, sizes below 1, and a projection that isn't an LSTM's or
    not smaller than the hidden size.
    """
    if kind not in GATES:
        raise ConfigError(f"recurrent: {kind!r} is not known; known: {', '.join(sorted(GATES))}")
    _positive(input_size=input_size, hidden_size=hidden_size)
    _positive(sequence_length=sequence_length, num_layers=num_layers)
    if proj_size and (kind != "lstm" or not 0 < proj_size < hidden_size):
        needed = f"an lstm and to be below hidden_size {hidden_size}"
        raise ConfigError(f"proj_size: {proj_size} needs {needed}")
    directions, gates, out = 1 + bidirectional, GATES[kind], proj_size or hidden_size
    inputs = input_size + (num_layers - 1) * out * directions  # of all layers together
    per_layer = gates * hidden_size * out + hidden_size * proj_size
    weights = directions * (gates * hidden_size * inputs + num_layers * per_layer)
    parameters = weights + num_layers * directions * 2 * bias * gates * hidden_size
    flops = 2 * weights * sequence_length
    return Term(name or kind, Part.SCAN, PER_SAMPLE, flops, parameters, parameters)


def linear(
    in_features: int,
    out_features: int,
    positions: int = 1,
    *,
    bias: bool = True,
    name: str = "linear",
) -> Term:
    """A linear layer at each of the positions of one sample: in * out multiply-adds per position."""
    _positive(in_features=in_features, out_features=out_features, positions=positions)
    parameters = in_features * out_features + bias * out_features
    flops = 2 * in_features * out_features * positions
    sides = Linear(in_features, out_features, stored=1, used=positions)
    return Term(name, Part.PROJECTION, PER_SAMPLE, flops, parameters, parameters, linear=sides)


def embedding(num_embeddings: int, embedding_dim: int, *, name: str = "embedding") -> Term:
    """A table that is looked up: parameters and no FLOPs."""
    _positive(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
    parameters = num_embeddings * embedding_dim
    return Term(name, Part.EMBEDDING, PER_SAMPLE, 0, parameters, parameters)


def normalisation(features: int, *, bias: bool = True, name: str = "norm") -> Term:
    """A batch, layer, group or RMS norm: a scale and perhaps a shift per feature, no matrix product, no FLOPs."""
    _positive(features=features)
    parameters = features * (1 + bias)
    return Term(name, Part.NORM, PER_SAMPLE, 0, parameters, parameters)


def attention(
    embed_dim: int,
    num_heads: int,
    queries: int,
    keys: int,
    *,
    bias: bool = True,
    name: str = "attention",
) -> Term:
    """torch.nn.MultiheadAttention over one sample: 2 h^2 multiply-adds per query, 2 h^2 per key, 2 h per pair of both.

    Raises ConfigError for heads that don't divide.
    """
    _positive(embed_dim=embed_dim, num_heads=num_heads, queries=queries, keys=keys)
    if embed_dim % num_heads:
        raise ConfigError(f"num_heads: {num_heads} must divide embed_dim {embed_dim}")
    products = 2 * embed_dim**2 * (queries + keys) + 2 * embed_dim * queries * keys
    parameters = 4 * (embed_dim**2 + bias * embed_dim)
    return Term(name, Part.PROJECTION, PER_SAMPLE, 2 * products, parameters, parameters)
