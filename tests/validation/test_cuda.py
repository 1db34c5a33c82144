"""Products of torch in every precision: what is called exists, and computes the product that is asked for.

On a CPU: the calls and their shapes, not what a GPU does with them. FP4 has no product there. How launches are queued
and timed is tested without torch.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from ofu_exporter.errors import SourceError
from ofu_exporter.validation import Product, cuda
from ofu_exporter.validation.cuda import BUILDERS, CHUNK_SECONDS, CudaMachine, build
from ofu_exporter.validation.session import PRECISIONS
from ofu_exporter.values.reasons import Reason

M, N, K = 64, 32, 128
ON_CPU = [precision for precision in PRECISIONS if precision != "fp4"]


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


def product(precision: str, zeros: bool = False) -> Product:
    return Product("square", precision, M, N, K, 1.0, zeros)


def test_every_precision_of_a_plan_can_be_built() -> None:
    assert set(BUILDERS) == set(PRECISIONS)


@pytest.mark.parametrize("precision", ON_CPU)
@pytest.mark.parametrize("zeros", [False, True])
def test_a_product_has_its_sides_and_is_zero_where_its_operands_are(
    torch: Any, precision: str, zeros: bool
) -> None:
    out = build(torch, product(precision, zeros), "cpu")()
    assert tuple(out.shape) == (M, N)  # type: ignore[attr-defined]
    assert bool((out == 0).all()) is zeros  # type: ignore[attr-defined]


def test_operands_of_fp4_are_packed_in_twos(torch: Any) -> None:
    """Two elements a byte, one scale for 16: whether a GPU takes them so, only a GPU can say."""
    call = build(torch, product("fp4"), "cpu")
    cells = {
        name: cell.cell_contents
        for name, cell in zip(call.__code__.co_freevars, call.__closure__ or (), strict=True)
    }
    assert tuple(cells["left"].shape) == (M, K // 2)
    assert tuple(cells["right"].shape) == (K // 2, N)
    assert cells["scale_left"].numel() == M * K // 16


def test_without_a_gpu_it_says_so(torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SourceError) as raised:
        CudaMachine(0)
    assert raised.value.reason is Reason.NO_GPU


class Stream:
    """What torch.cuda has of a stream, on a clock of its own: launches queue and end one after the other.

    An event has happened when all that was queued before it was recorded has ended; one that was not recorded, at once
    (CUDA's runtime API, cudaEventSynchronize).
    """

    LAUNCH_SECONDS = 5e-6
    """What a launch takes Python."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 100.0
        self.ends = 0.0
        """When all that is queued has ended."""

    def launch(self) -> None:
        self.now += self.LAUNCH_SECONDS
        self.ends = max(self.ends, self.now) + self.seconds

    def wait(self, until: float) -> None:
        self.now = max(self.now, until)

    def torch(self) -> SimpleNamespace:
        device = SimpleNamespace(uuid="5d")
        calls = SimpleNamespace(
            device_count=lambda: 1,
            is_available=lambda: True,
            set_device=lambda _: None,
            get_device_properties=lambda _: device,
            Event=partial(Event, self),
        )
        return SimpleNamespace(__version__="2.9", version=SimpleNamespace(cuda="13.0"), cuda=calls)


class Event:
    def __init__(self, stream: Stream, *, blocking: bool) -> None:
        assert blocking, "otherwise waiting keeps a core busy"
        self._stream, self._at = stream, 0.0

    def record(self) -> None:
        self._at = self._stream.ends

    def synchronize(self) -> None:
        self._stream.wait(self._at)


@pytest.mark.parametrize("seconds", [20e-6, 3e-3, 0.2])
def test_a_mark_is_made_when_its_launches_have_ended_and_the_gpu_never_waits(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(seconds)
    monkeypatch.setitem(sys.modules, "torch", stream.torch())
    monkeypatch.setattr(cuda, "time", SimpleNamespace(monotonic=lambda: stream.now))
    monkeypatch.setattr(cuda, "BUILDERS", {"bf16": lambda *_: stream.launch})
    marks = CudaMachine(0).run(product("bf16"))
    for before, after in pairwise(marks):
        ran = (after.launches - before.launches) * seconds
        assert after.at - before.at == pytest.approx(ran)
        assert ran == pytest.approx(max(CHUNK_SECONDS, seconds), rel=0.3)
    lasted = marks[-1].at - marks[0].at
    assert 1.0 <= lasted <= 1.0 + 3 * max(CHUNK_SECONDS, seconds)
