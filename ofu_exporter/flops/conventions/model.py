"""Every product that the model itself executes: the reference for the other conventions.

It has linear layers, attention cores, convolutions and scans, including router and head, but no embedding look-up,
norms and activations. Forward and backward are 3 forwards. Causal attention counts half of the pairs (and of a
sliding window the pairs in it), because that is what the model needs; `causal=False` counts every pair, as a kernel
without mask executes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.flops.models import Counting, Model, own_terms
from ofu_exporter.flops.shapes import Decoder
from ofu_exporter.flops.terms import Term


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    return own_terms(model, counting)


def warnings(model: Model, shape: Decoder, counting: Counting) -> Iterator[str]:
    """Multi-token-prediction layers that the configuration names and the count leaves out."""
    if shape.predictions and not counting.predictions:
        layers = f"{shape.predictions} multi-token-prediction layer(s)"
        lacking = "which are not counted; add --mtp if the job trains them"
        yield f"the configuration names {layers}, {lacking}"
