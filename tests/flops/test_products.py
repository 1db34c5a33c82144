"""Terms of products, counted by hand: two FLOPs for each multiply-add."""

from __future__ import annotations

from ofu_exporter.flops import products
from ofu_exporter.flops.terms import PER_TOKEN, Part, Term
from tests.helpers.every import every

UP = products.linear("up", Part.MLP, 3, 5, times=8, used=2, bias=True)


@every(
    [
        (products.linear("up", Part.MLP, 3, 5), 30, 15, 15),
        (UP, 60, 8 * 20, 2 * 20),
        (products.outside("head", Part.HEAD, 3, 5, bias=False), 30, 15, 15),
        (products.vector("norm", 7), 0, 7, 7),
        (products.embedding("tokens", 11, 3), 0, 33, 33),
        (products.core(6, 4, 2, PER_TOKEN), 40, 0, 0),
        (products.depthwise("conv", 6, 4, 3, bias=True), 144, 90, 90),
        (products.scan("state", 9), 9, 0, 0),
    ]
)
def test_a_term_has_its_flops_and_what_is_stored_and_used(
    term: Term, flops: int, stored: int, used: int
) -> None:
    assert (term.flops, term.parameters, term.active) == (flops, stored, used)


def test_what_is_recomputed_are_the_layers_alone() -> None:
    outside = products.outside("head", Part.HEAD, 3, 5), products.embedding("tokens", 11, 3)
    assert [each.in_layers for each in (UP, *outside)] == [True, False, False]
    norms = products.rms_norm, products.no_norm, products.layer_norm
    assert [norm(64) for norm in norms] == [64, 0, 128]
