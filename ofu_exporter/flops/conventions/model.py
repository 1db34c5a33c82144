"""Every product that the model itself executes: the reference for the other conventions.

It has linear layers, attention cores, convolutions and scans, including router and head, but no embedding look-up,
norms and activations. Forward and backward are 3 forwards. Causal attention counts half of the pairs (and of a
sliding window the pairs in it), because that is what the model needs; `causal=False` counts every pair, as a kernel
without mask executes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.flops.models import Counting, Model, own_terms
from ofu_exporter.flops.terms import Term


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    """The model's own terms, for every family."""
    return own_terms(model, counting)


def warnings(model: Model, counting: Counting) -> Sequence[str]:
    """Multi-token-prediction layers that the configuration names and the count leaves out."""
    if model.shape is not None and model.shape.predictions and not counting.predictions:
        return (
            f"the configuration names {model.shape.predictions} multi-token-prediction layer(s), which are not "
            "counted; add --mtp if the job trains them",
        )
    return ()
