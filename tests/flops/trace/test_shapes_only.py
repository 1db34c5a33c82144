"""Tensors without values beside integers that have them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
shapes_only = importlib.import_module("ofu_exporter.flops.trace.shapes_only")


def empty(*sizes: int) -> Any:
    return torch.empty(*sizes, device="meta")


def test_integers_keep_their_values_beside_shapes() -> None:
    with shapes_only.ShapesOnly():
        positions = torch.arange(5, device="meta")
        assert positions.tolist() == [0, 1, 2, 3, 4]
        assert (empty(5) + positions).is_meta
        assert positions.to("meta").tolist() == [0, 1, 2, 3, 4]
        assert torch.full((2,), 7, device="meta").tolist() == [7, 7]
        assert torch.full((2,), 7.0, device="meta").is_meta


def test_a_mask_with_values_chooses_as_many_rows_as_it_says() -> None:
    mask = torch.tensor([True, False, True])
    with shapes_only.ShapesOnly():
        assert empty(3, 4)[mask].shape == (2, 4)
        target = empty(3, 4)
        target[mask] = empty(2, 4)
        assert target.shape == (3, 4)
        assert empty(3).masked_select(mask).shape == (2,)


def test_experts_are_chosen_evenly_and_it_is_said() -> None:
    mode = shapes_only.ShapesOnly()
    with mode:
        _, chosen = empty(6, 4).topk(2)
    assert torch.bincount(chosen.flatten(), minlength=4).tolist() == [3, 3, 3, 3]
    assert all(len(set(row)) == 2 for row in chosen.tolist())
    assert any("evenly" in note for note in mode.notes)


def test_a_branch_on_a_value_that_is_not_there_is_not_taken_and_said() -> None:
    mode = shapes_only.ShapesOnly()
    with mode:
        assert not torch.isinf(empty(3)).any()
    assert mode.notes == {"a branch that depends on values was taken as false"}


def test_a_number_that_is_not_there_is_no_number() -> None:
    with shapes_only.ShapesOnly(), pytest.raises(RuntimeError, match="item"):
        empty(3).sum().item()


def test_large_masks_keep_only_their_shape() -> None:
    with shapes_only.ShapesOnly():
        small, large = (torch.arange(n, device="meta") for n in (64, 4096))
        assert not (small[:, None] <= small[None]).is_meta
        assert (large[:, None] <= large[None]).is_meta


def test_lists_of_integers_keep_their_values_on_any_device() -> None:
    """torch shows no operator where it makes a tensor of a list without values."""
    with shapes_only.ShapesOnly():
        assert torch.tensor([3, 4], device="meta").tolist() == [3, 4]
        assert torch.as_tensor([[1, 2]], device="meta").prod().item() == 2
        assert torch.tensor([1.5], device="meta").is_meta
    assert torch.tensor([3], device="meta").is_meta, "the mode ends"
