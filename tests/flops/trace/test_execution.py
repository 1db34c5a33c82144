"""What torch executes of any module, against products written out, with values and without."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
execution = importlib.import_module("ofu_exporter.flops.trace.execution")


class Gated(torch.nn.Module):  # type: ignore[misc]
    """A user's own module: two linear layers, a vector's product and an output that is a mapping."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = torch.nn.Linear(8, 12), torch.nn.Linear(8, 12, bias=False)
        self.read = torch.nn.Parameter(torch.randn(12))

    def forward(self, x: Any, scale: float = 1.0) -> dict[str, Any]:
        return {"out": (self.up(x) * self.gate(x).sigmoid() * scale) @ self.read}


def test_a_module_of_ones_own_with_values_and_without() -> None:
    """5 rows: two matrices of 8 * 12 and a vector of 12; their gradients, but none of the input."""
    real = flops.executed(Gated(), {"x": torch.randn(5, 8), "scale": 2.0})
    with torch.device("meta"):
        shapes = flops.executed(Gated(), (torch.randn(5, 8),))
    assert real.forward_flops == 2 * 5 * (2 * 8 * 12 + 12)
    # Forward, the gradients of both matrices, and the gradient of the vector: that of its input is no product.
    assert real.flops == real.forward_flops + 2 * 5 * (2 * 8 * 12 + 12)
    assert (shapes.forward, shapes.backward) == (real.forward, real.backward)
    assert real.parameters == real.trained == 2 * 8 * 12 + 12 + 12
    assert real.warnings == ()


def test_a_frozen_layer_has_no_gradient_of_its_weights() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    module[1].weight.requires_grad_(False)
    found = flops.executed(module, (torch.randn(3, 8),))
    assert found.flops == 4 * 2 * 3 * 8 * 8, (
        "two forward, one gradient of an input, one of a weight"
    )
    assert found.trained == found.parameters - 64


def test_a_parameter_that_a_layer_takes_a_part_of_is_counted_forward_only() -> None:
    """As in DeBERTa's table of positions; the parameters want their gradients afterwards as before."""

    class Positions(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(6, 8))
            self.frozen = torch.nn.Parameter(torch.randn(8), requires_grad=False)
            self.linear = torch.nn.Linear(8, 8, bias=False)

        def forward(self, x: Any) -> Any:
            return x @ self.linear(self.table[1:4]).T + self.frozen[:3]

    module = Positions()
    found = flops.executed(module, (torch.randn(5, 8),), backward=False)
    assert found.forward_flops == 2 * (3 * 8 * 8 + 5 * 8 * 3)
    assert [each.requires_grad for each in module.parameters()] == [True, False, True]
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def test_an_operator_that_the_counter_does_not_know_is_named() -> None:
    module = torch.nn.Linear(4, 4)

    class Spectrum(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return module(torch.fft.fft(x).real)

    found = flops.executed(Spectrum(), (torch.randn(3, 4),), backward=False)
    assert found.forward == {"addmm": 2 * 3 * 16}
    assert found.warnings == (
        "not counted, because torch's counter does not know them: aten._fft_r2c",
    )


def test_a_library_of_ones_own_is_not_taken_for_free() -> None:
    library = torch.library.Library("ofu_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")

    class Own(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.ops.ofu_test.twice(x)

    found = flops.executed(Own(), (torch.randn(3),), backward=False)
    assert "ofu_test.twice" in found.warnings[0]


def test_an_output_without_a_gradient_is_refused() -> None:
    with pytest.raises(ConfigError, match="no output has a gradient"):
        flops.executed(torch.nn.Identity(), (torch.randn(3),))


def test_a_backward_pass_that_fails_is_said_to_be_the_backward_pass() -> None:
    class OneWay(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(_: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            raise RuntimeError(f"there is no way back for {len(gradients)}")

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return OneWay.apply(x)

    x = torch.randn(3, requires_grad=True)
    with pytest.raises(
        ConfigError,
        match="backward pass fails: there is no way back for 1; count with forward only",
    ):
        flops.executed(Module(), (x,))
    assert flops.executed(Module(), (x,), backward=False).forward_flops == 0


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        ((48, 16), (3, 16, 24), 48 * 16 * 24),
        ((16, 48), (48, 24), 16 * 48 * 24),
        ((3, 8, 16), (3, 16, 24), 3 * 8 * 16 * 24),
    ],
)
def test_grouped_products(
    one: tuple[int, ...], other: tuple[int, ...], cost: int, precision: Any
) -> None:
    """Rows by their group's matrix; columns summed by group; a matrix per group."""
    with torch.device("meta"):
        a, b = torch.empty(*one, dtype=precision), torch.empty(*other, dtype=precision)
        ends = None if len(one) == 3 else torch.empty(3, dtype=torch.int32)

    class Grouped(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch._grouped_mm(x, b, offs=ends)

    assert flops.executed(Grouped(), (a,), backward=False).forward == {"_grouped_mm": 2 * cost}


def test_attention_counts_every_pair_with_fused_kernels_too() -> None:
    class Attention(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    found = flops.executed(Attention(), (torch.randn(2, 3, 16, 8),), backward=False)
    assert found.forward_flops == 2 * 2 * 2 * 3 * 16 * 16 * 8


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("dims", "groups"), [(1, 1), (1, 8), (2, 4), (2, 8), (3, 2)])
def test_each_gradient_of_a_convolution_costs_what_its_forward_pass_costs(
    dims: int, groups: int, transposed: bool
) -> None:
    """2 * positions * weights: of the output, or of the input where it is transposed; groups share no channels."""
    kind = f"Conv{'Transpose' if transposed else ''}{dims}d"
    module = getattr(torch.nn, kind)(8, 16, 3, stride=2, padding=1, groups=groups, bias=False)
    x = torch.randn(2, 8, *(9,) * dims, requires_grad=True)
    positions = 2 * (9**dims if transposed else 5**dims)
    once = 2 * positions * module.weight.numel()
    assert flops.executed(module, (x,)).forward_flops == once
    assert flops.executed(module, (x,)).flops == 3 * once
    assert flops.executed(module, (x.detach(),)).flops == 2 * once, "the input wants no gradient"
    module.weight.requires_grad_(False)
    assert flops.executed(module, (x,)).flops == 2 * once, "the weights want none"


def test_a_norm_is_no_product_that_is_left_out() -> None:
    class Unit(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)

    x = torch.randn(3, 4, requires_grad=True)
    assert flops.executed(Unit(), (x,)).warnings == ()
