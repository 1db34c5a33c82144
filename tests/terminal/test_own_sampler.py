"""Without an agent: GPUs are sampled here, and let go of at the end."""

from __future__ import annotations

import threading

import pytest

from ofu_exporter.cli.settings import configure
from ofu_exporter.terminal.own_sampler import ORIGIN, OwnSampler
from ofu_exporter.terminal.scene import ofu_of
from tests.helpers.agent import SOON, until

pytestmark = pytest.mark.slow


def test_the_gpus_are_sampled_with_their_jobs_and_let_go_of() -> None:
    flags = {"source": "simulate", "scheduler": "simulate", "interval": "0.2"}
    before = {thread.name for thread in threading.enumerate()}
    sampler = OwnSampler(configure(flags, environ={}))
    sampler.start()
    try:
        scene = sampler.complete(SOON)
        assert scene.origin == ORIGIN
        assert len(scene.nodes[0].gpus) == 8
        assert all(ofu_of(gpu) is not None for _, _, gpu in scene.gpus)
        until(lambda: len(sampler.scene().nodes[0].jobs) == 4)
    finally:
        sampler.stop()
    until(lambda: {thread.name for thread in threading.enumerate()} <= before)
