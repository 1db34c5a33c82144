"""A real Lightning Trainer with the callback: what it reports, and that the answer is in its log.

Needs `pip install lightning`, which no extra brings.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.client.listener import Listener
from tests.doubles.report_agent import ReportAgent, report_agent
from tests.helpers.libraries import library

pytestmark = pytest.mark.filterwarnings("ignore")
SEQ_LEN, BATCH, BATCHES = 16, 4, 24


def module(**attributes: float) -> Any:
    """A small module that is trained on batches with `input_ids`."""
    torch, lightning = library("torch"), library("lightning")

    class Small(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(SEQ_LEN, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layer(batch["input_ids"].float()).mean()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.layer(batch["input_ids"].float())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    small = Small()
    for name, value in attributes.items():
        setattr(small, name, value)
    return small


def train(
    agent: ReportAgent, folder: Path, small: Any, callback: dict[str, Any], **options: Any
) -> Any:
    """Train; the Trainer."""
    torch, lightning = library("torch"), library("lightning")
    from ofu_exporter.client.lightning import OfuCallback

    rows = [{"input_ids": torch.ones(SEQ_LEN)} for _ in range(BATCH * BATCHES)]
    batches = torch.utils.data.DataLoader(rows, batch_size=BATCH)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=[OfuCallback(job_id="7", url=agent.url, **{"every": 3600.0, **callback})],
        **options,
    )  # fmt: skip
    trainer.fit(small, batches, batches)
    return trainer


def covered(agent: ReportAgent, rate: str) -> float:
    rated = [one for one in agent.reports if rate in one]
    return float(sum(one[rate] * (one["end"] - one["start"]) for one in rated))


def test_tokens_of_the_batches(tmp_path: Path) -> None:
    with report_agent() as agent:
        trainer = train(agent, tmp_path, module(), {"flops_per_token": 1e6}, precision="bf16-mixed")
    tokens = BATCH * BATCHES * SEQ_LEN
    assert covered(agent, "tokens_per_second") == pytest.approx(tokens, rel=0.05)
    report = agent.reports[-1]
    assert report["precision"] == "bf16"
    assert report["gpus"] == 1
    assert report["framework"].endswith("tokens")
    assert report["step"] == trainer.global_step == BATCHES


def test_ranks_that_share_a_batch_count_its_tokens_once() -> None:
    """The two values as a Trainer of 2.6 has them with `ModelParallelStrategy(2, 4)` on eight GPUs, and on one."""
    torch = library("torch")
    library("lightning")
    from ofu_exporter.client.lightning import OfuCallback

    callback = OfuCallback(flops_per_token=1e6)
    callback._counted = "tokens"
    batch = {"input_ids": torch.ones(BATCH, SEQ_LEN)}
    for ranks, sampler, batches in ((8, {"num_replicas": 2, "rank": 0}, 2), (1, None, 1)):
        trainer = SimpleNamespace(world_size=ranks, distributed_sampler_kwargs=sampler)
        assert callback._batch(trainer, None, batch) == batches * BATCH * SEQ_LEN


def test_the_answer_is_among_the_trainers_metrics(tmp_path: Path) -> None:
    with report_agent() as agent:
        callback = {"model_flops_per_step": 1e9, "every": 1e-4}
        trainer = train(agent, tmp_path, module(), callback)
    assert trainer.logged_metrics["ofu"] == pytest.approx(0.3)
    assert trainer.logged_metrics["mfu_ofu_agree"] == 0.0


def test_accumulated_batches_make_one_step(tmp_path: Path) -> None:
    with report_agent() as agent:
        train(
            agent, tmp_path, module(), {"model_flops_per_step": 4e9},
            accumulate_grad_batches=4,
        )  # fmt: skip
    assert covered(agent, "model_flops_per_second") == pytest.approx(4e9 * BATCHES / 4, rel=0.05)


def test_the_modules_own_count_is_what_is_left_and_is_named(tmp_path: Path) -> None:
    with report_agent() as agent:
        train(agent, tmp_path, module(flops_per_batch=10**9), {})
    assert covered(agent, "model_flops_per_second") == pytest.approx(1e9 * BATCHES, rel=0.05)
    assert agent.reports[0]["framework"].endswith("flops_per_batch")


def test_a_validation_is_in_no_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library("lightning")
    listener = Listener()
    monkeypatch.setattr("ofu_exporter.client.steps.Reporter", lambda **_: listener)
    quarter = BATCHES // 4
    train(
        ReportAgent(""), tmp_path, module(), {"model_flops_per_step": 1e9},
        val_check_interval=quarter,
    )  # fmt: skip
    ends = [one["start"] + 1e9 / one["model_flops_per_second"] for one in listener.told]
    gaps = [after["start"] - end for after, end in zip(listener.told[1:], ends, strict=False)]
    assert [step for step, gap in enumerate(gaps, 1) if gap > 1e-5] == [
        quarter, 2 * quarter, 3 * quarter,
    ]  # fmt: skip


def test_without_a_count_nothing_is_made_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with report_agent() as agent:
        trainer = train(agent, tmp_path, module(), {})
    assert trainer.global_step == BATCHES
    assert agent.reports
    assert not [each for each in agent.reports if "model_flops_per_second" in each]
    assert max(each["step"] for each in agent.reports) == BATCHES
    assert "flops_per_token" in caplog.text


def test_training_ends_well_whatever_the_callback_meets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"flops_per_token": 1e6, "tokens_in_batch": lambda batch: batch["no such key"]}
    trainer = train(ReportAgent("http://127.0.0.1:1"), tmp_path, module(), wrong)
    assert trainer.global_step == BATCHES
    assert caplog.text.count("MFU is not reported for some steps") == 1
