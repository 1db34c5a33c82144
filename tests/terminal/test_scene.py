"""What all answers of nodes say together."""

from __future__ import annotations

import pytest

from ofu_exporter.serving.node_json import NodeJob
from ofu_exporter.terminal.scene import mean_losses, user_of
from ofu_exporter.values.losses import Loss
from tests.helpers.scenes import one_node
from tests.terminal.test_gpu_rows import with_window

pytestmark = pytest.mark.xdist_group("shown node")


def test_the_parts_of_several_gpus_add_up_with_their_ofu() -> None:
    split = {Loss.CLOCK: -0.1, Loss.NO_TENSOR: 0.3, Loss.EMPTY_SMS: 0.2, Loss.IDLE: 0.3}
    gpu = with_window(0.3, split)
    other = with_window(0.6, {Loss.CLOCK: 0.1, Loss.WITHOUT_TENSOR: 0.3}, share=0.5)
    away = gpu.model_copy(update={"window": None})
    losses = mean_losses([gpu, other, away])
    assert sum(losses.values()) == pytest.approx(1.0 - (0.3 + 0.5 * 0.6) / 1.5)
    assert losses[Loss.WITHOUT_TENSOR] == pytest.approx(0.1)
    assert losses[Loss.CLOCK] == pytest.approx(-0.05 / 1.5)
    assert mean_losses([gpu]) == pytest.approx(split)
    assert mean_losses([away]) == {}


def test_a_row_has_the_length_of_its_window_and_a_job_its_user_or_namespace() -> None:
    scene = one_node()
    windows = [gpu.window and gpu.window.seconds for _, _, gpu in scene.gpus]
    assert [row["window_seconds"] for row in scene.gpu_rows()] == windows
    assert any(windows)
    several = {"tensor_clock_hz", "peak_flops", "last_hour"}
    assert not any(several & row.keys() for row in scene.gpu_rows())
    names = [("ada", "ml"), ("", "ml")]
    jobs = [NodeJob.model_construct(user=user, namespace=space) for user, space in names]
    assert [user_of(job) for job in jobs] == ["ada", "ml"]
