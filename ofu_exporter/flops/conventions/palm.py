"""PaLM: 6 N + 12 L H Q T per token, N the active parameters, full attention.

PaLM (arXiv:2204.02311), appendix B; nanoGPT `model.py: estimate_mfu`, llm-foundry `flops_per_batch` and
torchtitan `get_nparams_and_flops` count the same. N has norms and biases, and one table of V * h: PaLM ties
embedding and head, so where they are two, the one that is only looked up is left out. Learned positions
are left out too (nanoGPT; llm-foundry counts them). L layers with attention, H heads of dimension Q, T tokens of the
sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.flops.models import Counting, Model, decoder_only, own_terms
from ofu_exporter.flops.shapes import Decoder
from ofu_exporter.flops.terms import Extent, Part, Per, Term


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    shape = decoder_only(model, counting, "palm", halved=False)
    tied = shape.tied and shape.labels is None
    executed = own_terms(model, counting)
    multiplied = (
        term
        for term in executed
        if term.part is not Part.EMBEDDING or (tied and term.name == "embed_tokens")
    )
    parameters = sum(term.active for term in multiplied)
    cores = sum(term.flops for term in executed if term.part is Part.CORE)
    return (
        Term("parameters", Part.PROJECTION, flops=2 * parameters),
        Term("attention.core", Part.CORE, Extent(Per.PAIR), flops=cores),
    )


def warnings(model: Model, shape: Decoder, counting: Counting) -> Sequence[str]:
    """None: everything that it leaves out is the convention."""
    return ()
