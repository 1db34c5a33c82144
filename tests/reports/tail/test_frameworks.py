"""Lines of each framework's log, in the form that it prints, say 420.4 TFLOP/s, 12 s a step and the step itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pytest
import yaml

from ofu_exporter.client.intervals import Call, IntervalReport
from ofu_exporter.flops import readers
from ofu_exporter.flops.readers import JobFacts
from ofu_exporter.reports.tail.lines import LogFile, TailLine
from ofu_exporter.reports.tail.statements import UNKNOWN_AFTER, Drop, LogTail
from tests.helpers.every import every

START = 1_700_000_000.0
STEP_SECONDS = 12.0
STEPS = 9


class Job:
    """A log that grows by the lines of a step every 12 s."""

    def __init__(self, framework: str = "auto", /, **job: int) -> None:
        self.now = START
        self.said: list[str] = []
        self.tail = LogTail(framework, JobFacts(**job), self.said.append, lambda: self.now)

    def take(self, line: str, after: float) -> Call | IntervalReport | None:
        self.now += after
        return self.tail.take(TailLine(line, True))

    def follow(self, *steps: str) -> list[Call]:
        calls = []
        for step in steps:
            self.now += STEP_SECONDS
            calls += [self.tail.take(TailLine(line, True)) for line in step.split("\n")]
        return [call for call in calls if isinstance(call, Call)]


def followed(lines_of: Callable[[int], str], *before: str, **job: int) -> tuple[Job, list[Call]]:
    log = Job("auto", **job)
    log.follow(*before)
    return log, log.follow(*(lines_of(step) for step in range(1, STEPS + 1)))


def rates(calls: list[Call], name: str = "tflops_per_gpu") -> list[float]:
    return [call.values[name] for call in calls if name in call.values]


def steps(calls: list[Call]) -> list[int | None]:
    return [call.step for call in calls if call.values]


def _forms() -> Iterator[tuple[str, tuple[str, Callable[[int], str]]]]:
    for name, form in yaml.safe_load(
        Path(__file__).with_name("frameworks.yaml").read_text()
    ).items():
        ((reader, lines),) = form.items()
        yield name, (reader, partial(_of_step, lines))


def _of_step(lines: str, n: int) -> str:
    return lines.format(n=n)


FORMS = dict(_forms())
"""The reader of each form of a log, and what a step prints in it."""
titan, bridge_first = FORMS["torchtitan"][1], FORMS["Bridge, rate first"][1]


def bridge_second(n: int) -> str:
    return "\n".join(reversed(bridge_first(n).split("\n")))


FORMS["Bridge, iteration first"] = "megatron_bridge", bridge_second
PEAKS = {
    "OLMo-core": "INFO\tDevice: NVIDIA H100 80GB HBM3, Device peak FLOPS: 989400000000000",
    "OLMo-core 3.0.0, of several": "INFO\tDevice: NVIDIA H200, Device peak Flops/s: 312000000000000",
    "nanochat of 2026": "GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14",
}
"""What these logs say at their start."""


@every(FORMS)
def test_a_step_of_a_framework_is_a_report_of_12_seconds(form: str) -> None:
    framework, lines_of = FORMS[form]
    log, calls = followed(lines_of, *([PEAKS[form]] if form in PEAKS else []))
    assert log.tail.framework == framework
    assert rates(calls) == pytest.approx([420.4] * len(rates(calls)), rel=4e-4)
    assert len(rates(calls)) >= STEPS - 2, (
        "the first may only mark a beginning; a form without FLOP/s has a test of its own below"
    )
    assert steps(calls) == [*range(STEPS + 1 - len(rates(calls)), STEPS + 1)]
    reports = [call for call in calls if call.values]
    assert {call.at - (call.start or 0.0) for call in reports[1:]} == {STEP_SECONDS}
    assert {call.step for call in calls} == {*range(1, STEPS + 1)}, "each step is stated"
    assert not log.tail.drops.keys() - {Drop.NO_LENGTH}


@every(form for form in FORMS if not form.startswith("torchtitan"))
def test_the_first_step_covers_the_time_that_its_lines_state(form: str) -> None:
    log = Job()
    first = log.follow(*([PEAKS[form]] if form in PEAKS else []), FORMS[form][1](1))[-1]
    assert first.at - (first.start or 0.0) == pytest.approx(STEP_SECONDS, abs=1e-3)


def test_every_reader_has_a_form_or_tests_of_its_own() -> None:
    """The latter are below, and in tests/flops/test_readers.py."""
    own = {"deepspeed", "huggingface", "lightning", "litgpt", "onelogger", "serving", "torch_npu"}
    own |= {"composer", "nemo_automodel", "torchtune", "verl"}
    formed = {reader for reader, _ in FORMS.values()}
    assert {*readers.names()} ^ (own | formed) == set(), (
        "a reader has lines in frameworks.yaml, or tests of its own and its name here"
    )


@every([("OLMo-core", 0.424904), ("nanochat of 2026", 0.4251)])
def test_an_mfu_without_its_peak_is_posted_as_it_is(form: str, mfu: float) -> None:
    _, lines_of = FORMS[form]
    _, calls = followed(lines_of)
    assert rates(calls, "mfu") == pytest.approx([mfu] * STEPS)


@every([("OLMo-core", "device/BPS=", "device/MFU="), ("NeMo-RL", "policy_training", "FLOPS:")])
def test_what_a_step_said_is_not_taken_for_the_next(form: str, last: str, rate: str) -> None:
    """The fifth lacks its last line, and the sixth its rate: both are stated, without a rate."""
    _, lines_of = FORMS[form]

    def without(n: int) -> str:
        dropped = {5: last, 6: rate}.get(n, "none")
        return "\n".join(line for line in lines_of(n).split("\n") if dropped not in line)

    _, calls = followed(without, *([PEAKS[form]] if form in PEAKS else []))
    assert steps(calls) == [1, 2, 3, 4, 7, 8, 9]
    assert sorted(call.step or 0 for call in calls) == [*range(1, STEPS + 1)]


def test_only_the_first_block_of_olmo_core_may_need_the_peak_that_it_has_logged() -> None:
    """3.0.0 divides by an A100's peak on an H200, and several ranks write their TFLOP/s below the MFU."""
    log, calls = followed(FORMS["OLMo-core 3.0.0, of several"][1])
    assert rates(calls, "mfu") == [pytest.approx(1.347)]
    assert rates(calls) == pytest.approx([420.4] * (STEPS - 1))
    assert not log.tail.drops


def test_validation_is_in_no_interval_of_torchtitan() -> None:
    log = Job()
    log.follow(titan(1), titan(2))
    log.follow(
        titan(2).replace("step:", "validate step:").replace("  tflops: 420.40  mfu: 42.49%", "")
    )
    (report,) = log.follow(titan(3))
    assert report.at - (report.start or 0.0) == STEP_SECONDS


def test_ranks_that_write_the_same_step_are_no_restart() -> None:
    log = Job()
    log.follow(titan(1), titan(2))
    log.follow("\n".join((titan(3), titan(3))))
    (report,) = log.follow(titan(4))
    assert report.at - (report.start or 0.0) == STEP_SECONDS
    assert log.tail.drops == {Drop.NO_LENGTH: 1}


NEW_CYCLE = (
    "- Cycle: 1 Event: failure_detected Node: n Rank: 0 Time: 2023-11-14 22:13:50.000 UTC",
    "- Cycle: 1 Event: worker_start_started Node: n Rank: 0 Time: 2023-11-14 22:18:50.000 UTC",
)


@every([("2", ()), ("4", NEW_CYCLE)])
def test_no_rate_of_torchtitan_is_of_the_time_that_a_restart_took(
    step: str, launcher: tuple[str, ...]
) -> None:
    """Its line does not say how long its steps took, so they last since the line before."""
    log = Job()
    log.follow(titan(1), titan(2), titan(3))
    log.now += 300.0
    (after, again) = log.follow("\n".join((*launcher, titan(int(step)))), titan(int(step) + 1))
    assert (after.values, after.step) == ({}, int(step))
    assert again.values == {"tflops_per_gpu": pytest.approx(420.4)}
    assert again.at - (again.start or 0.0) == STEP_SECONDS


def test_lines_of_2024_of_torchtitan_have_an_mfu_alone() -> None:
    _, calls = followed(lambda n: titan(n).replace("tps: 7,250  tflops: 420.40", "wps: 7,250"))
    assert rates(calls, "mfu") == pytest.approx([0.4249] * (STEPS - 1))


def test_rates_of_bridge_without_its_iterations_are_enough() -> None:
    _, calls = followed(lambda n: bridge_first(n).split("\n")[0])
    assert rates(calls) == pytest.approx([420.4] * (STEPS - 1))


def test_two_lines_of_bridge_that_do_not_fit_are_of_two_iterations() -> None:
    log = Job("megatron_bridge")
    log.follow(bridge_second(1).split("\n")[0].replace("12000.4", "9000.0"))
    assert rates(log.follow(bridge_first(2))) == [420.4]


@every([("12005.0", 1), ("12007.0", None)])
def test_two_lines_of_bridge_are_of_one_iteration_up_to_their_rounding(
    milliseconds: str, step: int | None
) -> None:
    log = Job("megatron_bridge")
    calls = log.follow(bridge_second(1).replace("12000.4", milliseconds), bridge_first(2))
    assert (steps(calls) or [None])[0] == step


def test_nemo_logs_every_tenth_step_and_means_all_ten() -> None:
    log, (_, lines_of) = Job(), FORMS["NeMo 2"]
    log.follow(lines_of(10), *[""] * 9)
    (report,) = log.follow(lines_of(20))
    assert report.at - (report.start or 0.0) == 10 * STEP_SECONDS


def test_gpus_of_nemo_rl_that_only_generate_count_too() -> None:
    """6,726.4 TFLOP/s for half of the time, over 16 GPUs of which 8 train."""
    _, calls = followed(FORMS["NeMo-RL"][1], world_size=16)
    assert rates(calls) == pytest.approx([210.2] * STEPS)


@every(
    {
        (
            "litgpt",
            None,
        ): "Epoch 1 | iter 50 step 3 | loss train: 2.300, val: n/a | iter time: 250.00 ms (step) remaining",
        (
            "torchtune",
            None,
        ): "Step 3 | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:7250.0 peak_memory_active:60",
        ("verl", 98.5): "step:3 - actor/entropy:0.3 - perf/time_per_step:98.5 - timing_s/gen:40.0",
        (
            "megatron",
            12.0,
        ): " iteration        3/     100 | consumed samples: 1 | elapsed time per iteration (ms): 12000.0 |",
        (
            "nemo",
            12.0,
        ): "Training epoch 0, iteration 3/9 | global_step: 3 | train_step_timing in s: 12.0",
    }.items()
)
def test_a_line_with_a_step_and_no_rate_says_when_it_was_reached(
    form: tuple[str, float | None], line: str
) -> None:
    (name, seconds), log, end = form, Job(), START + STEP_SECONDS
    assert log.follow(line) == [Call(end, {}, 3, None if seconds is None else end - seconds)]
    assert log.tail.framework is None, f"{name}: another line may say more"


@every([({"world_size": 8}, 58000.0), ({"world_size": 8, "data_parallel_size": 4}, 29000.0)])
def test_tokens_of_torchtune_are_of_the_job_where_its_size_is_known(
    job: dict[str, int], tokens: float
) -> None:
    """0.6.1 sums them up over all ranks, of which those that share tensors have the same."""
    _, calls = followed(
        lambda n: f"Step {n} | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:7250.0", **job
    )
    assert rates(calls, "tokens_per_second") == [tokens] * (STEPS - 1)


def test_tokens_of_automodel_are_those_of_all_gpus() -> None:
    """0.7.0, with lines of a validation; those that train a classifier end earlier."""
    line = (
        "2026-01-01 10:00:00 | INFO | root | step {n} | epoch 0 | loss 2.1000 | grad_norm 1.5000 | lr 1.00e-05 | "
        "mem 61.25 GiB | tps 58000.00(7250.00/gpu){more}\n"
        '[val] name "default" | step {n} | epoch 0 | loss 2.0000 | lr 1.00e-05 | num_label_tokens 5000'
    )
    for more in (" | num_label_tokens 690000", ""):
        log, calls = followed(partial(_of_step, line.replace("{more}", more)))
        assert log.tail.framework == "nemo_automodel"
        assert rates(calls, "tokens_per_second") == [58_000.0] * (STEPS - 1)
        assert steps(calls) == [*range(2, STEPS + 1)]


def composed(n: int, rates: str) -> str:
    """As Composer 0.32.1 prints a step of 48 samples in 12 s, cut short."""
    before = {
        "batch": n - 1,
        "sample": 48 * (n - 1),
        "batch_in_epoch": n - 1,
        "token": 696_000 * (n - 1),
    }
    values = [f"time/{name}: {value}" for name, value in before.items()]
    shown = [*values, "loss/train/total: 4.6", *rates.split(", "), "time/total: 0.1000"]
    return "\n".join([f"[token={696_000 * n}/99999999]:", *(f"\t Train {each}" for each in shown)])


SAMPLES = "throughput/samples_per_sec: 4.0000"
FLOPS = f"{SAMPLES}, throughput/device/flops_per_sec: 420400000000000.0000"


def test_blocks_of_composer_are_about_the_time_since_the_block_before() -> None:
    log, calls = followed(partial(composed, rates=FLOPS))
    assert log.tail.framework == "composer"
    assert rates(calls) == pytest.approx([420.4] * (STEPS - 1))
    assert [call.step for call in calls] == [*range(1, STEPS + 1)]
    log.follow("")
    assert rates(log.follow(composed(STEPS + 1, FLOPS))) == [pytest.approx(210.2)], "a pause"
    late = composed(STEPS + 1, FLOPS).split("\n")
    assert not any(log.take(line, after=0.02) for line in late), "another rank's"
    log.now -= 0.02 * len(late)
    assert rates(log.follow(composed(STEPS + 2, FLOPS))) == [pytest.approx(420.4)]


def test_an_evaluation_of_composer_is_in_no_interval() -> None:
    log, _ = followed(partial(composed, rates=FLOPS))
    log.follow("[Eval batch=1/8] Eval on eval data")
    assert [call.values for call in log.follow(composed(10, FLOPS))] == [{}]
    assert rates(log.follow(composed(11, FLOPS))) == [pytest.approx(420.4)]


def test_models_of_hugging_face_in_composer_have_tokens() -> None:
    """Once SpeedMonitor's window is full, since only then it is known that no FLOPs follow."""
    log = Job()
    assert [call.values for call in log.follow(composed(1, "x"), composed(2, "x"))] == [{}, {}]
    assert rates(log.follow(composed(3, SAMPLES)), "tokens_per_second") == [58_000.0]


def tuned(n: int, mfu: float = 0.41) -> str:
    """As verl 0.9.1 prints a step of supervised fine-tuning (`concat_dict_to_str`), cut short."""
    return (
        f"step:{n} - perf/max_memory_allocated_gb:61.25 - train/loss:0.6931471805599453 - "
        f"train/grad_norm:1.5 - train/lr:1e-05 - train/mfu:{mfu} - train/global_tokens:262144"
    )


def test_fine_tuning_of_verl_states_an_mfu_and_no_time_and_says_when_a_pause_ends() -> None:
    log, calls = followed(tuned)
    assert log.tail.framework == "verl"
    assert rates(calls, "mfu") == [0.41] * (STEPS - 1)
    assert steps(calls) == [*range(2, STEPS + 1)]
    ends = "step:9 - val/loss:0.61", '{"step": 9, "data": {"val/loss": 0.61}}'
    for end in (*ends, "Updated checkpoint tracker: /ckpt/latest.txt"):
        log.follow("Saving checkpoint to: /ckpt", end)
        (after,) = log.follow(tuned(10))
        assert after.at - (after.start or 0.0) == STEP_SECONDS
    assert log.follow(tuned(11, 0.0)) == []
    assert "does not know the GPU" in log.said[-1]


def trainer(tokens: str) -> str:
    return f"{{'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1{tokens}}}"


def test_tokens_of_the_trainer_are_those_since_the_line_before() -> None:
    _, calls = followed(lambda n: trainer(f", 'num_input_tokens_seen': {696_000 * n}"))
    assert rates(calls, "tokens_per_second") == [58_000.0] * (STEPS - 1)
    assert {call.step for call in calls} == {None}


def test_axolotl_counts_tokens_by_itself() -> None:
    """As its `AxolotlTrainer.log` of 2026-07 printed them, cut short."""
    tokens = ", 'tokens/train_per_sec_per_gpu': '1903', 'tokens/trainable': 256, 'tokens/total': "
    _, calls = followed(lambda n: trainer(f"{tokens}{696_000 * n}"))
    assert rates(calls, "tokens_per_second") == [58_000.0] * (STEPS - 1)


@every(["", ", 'num_input_tokens_seen': 696000"])
def test_lines_of_ms_swift_have_steps_and_need_no_tokens(tokens: str) -> None:
    """4.6 (`add_train_message`)."""
    steps_of = ", 'global_step/max_steps': '{n}/100', 'elapsed_time': '1m 4s'"
    log, calls = followed(lambda n: trainer(tokens + steps_of.format(n=n)))
    assert [call.step for call in calls] == [*range(1, STEPS + 1)]
    assert not log.said


@every(["eval_runtime': '9.5'", "eval_runtime': 9.5", "eval_code_runtime': '9.5'"])
def test_an_evaluation_of_the_trainer_is_in_no_rate(runtime: str) -> None:
    """As transformers 5.24 prints it, and 4; several sets of data have a line each. The step takes 12 s, as ever."""
    log = Job()
    log.follow(trainer(", 'num_input_tokens_seen': 696000"))
    log.now += 9.5  # and it may come between two lines of the training
    evaluated = log.take(f"{{'eval_loss': '5.5', '{runtime}, 'epoch': '0.1'}}", after=7.0)
    assert evaluated == IntervalReport(log.now - 9.5, log.now, {}, None, "evaluation")
    after = log.take(trainer(", 'num_input_tokens_seen': 1392000"), after=5.0)
    assert isinstance(after, Call)
    assert after.values == {"tokens_per_second": 58_000.0}
    assert after.start == evaluated.end
    log.take(f"{{'eval_loss': '5.5', '{runtime}}}", after=3.0)
    after = log.take(trainer(", 'num_input_tokens_seen': 2088000"), after=5.0)
    assert isinstance(after, Call)
    assert after.values == {"tokens_per_second": 696_000 / 5}, "of no time before the line before"


def test_an_evaluation_that_a_script_prints_once_more_is_no_second_one() -> None:
    """From the Trainer's results, which have all digits; at once, or with what the script says at its next step."""
    log = Job()
    log.follow(trainer(", 'num_input_tokens_seen': 696000"))
    assert log.take("{'eval_loss': '5.5', 'eval_runtime': '9.512', 'epoch': '0.1'}", after=9.5123)
    for after in (0.01, 4.0):
        again = "{'eval_loss': 5.5, 'eval_runtime': 9.5123, 'epoch': 0.1}"
        assert log.take(again, after=after) is None
    trained = log.take(trainer(", 'num_input_tokens_seen': 1392000"), after=1.99)
    assert isinstance(trained, Call)
    assert trained.values == {"tokens_per_second": pytest.approx(696_000 / 6, rel=1e-3)}


def test_an_evaluation_whose_line_comes_late_opens_no_time_that_was_stated() -> None:
    log = Job()
    log.follow(trainer(", 'num_input_tokens_seen': 696000"))
    (trained,) = log.follow(trainer(", 'num_input_tokens_seen': 1392000"))
    early = datetime.fromtimestamp(log.now - 8.0, timezone.utc).isoformat(" ")
    assert log.take(f"{early} {{'eval_loss': 5.5, 'eval_runtime': 2.5}}", after=4.0)
    (after,) = log.follow(trainer(", 'num_input_tokens_seen': 2088000"))
    assert after.start == trained.at
    assert after.values == {"tokens_per_second": 696_000 / 16}


def test_the_trainer_without_tokens_is_sent_to_the_callback() -> None:
    log, calls = followed(lambda _: trainer(""))
    assert calls == []
    assert "use OfuCallback" in log.said[0]


def csv_row(n: int) -> str:
    """Samples of one GPU at 4 a second, of 105.1 TFLOP each; the rates are those of a window of more steps."""
    return f"0,{n},2.0,4.8e14,0.9,4.5671,{48 * n},{STEP_SECONDS * n}"


CSV_HEADER = (
    "epoch,step,loss,train/device/flops_per_sec,train/device/mfu,train/device/samples_per_sec,"
    "train/samples,train/time"
)


def test_metrics_csv_of_lightning_is_read_row_by_row() -> None:
    log, calls = followed(csv_row, CSV_HEADER)
    assert log.tail.framework == "lightning"
    assert rates(calls) == pytest.approx([4.8e2 * 4 / 4.5671] * (STEPS - 1))
    assert steps(calls) == [*range(2, STEPS + 1)]


def test_rows_that_lightning_writes_again_are_not_stated_again() -> None:
    log = Job()
    log.follow(CSV_HEADER, csv_row(1), csv_row(2), csv_row(3))
    again = log.follow(CSV_HEADER + ",val_loss", *(csv_row(n) + "," for n in (1, 2, 3)))
    assert again == []
    assert len(rates(log.follow(csv_row(4) + ",1.2"))) == 1
    assert log.follow(csv_row(5)) == [], "other columns than the file's"
    assert log.tail.drops[Drop.UNREADABLE] == 1


@pytest.mark.parametrize("is_written_again", [True, False])
@pytest.mark.parametrize("of_loss", ["", "0,9,1.9,,,,,"])
def test_rows_before_the_first_that_was_read_are_not_stated_when_they_are_written_again(
    of_loss: str, is_written_again: bool, tmp_path: Path
) -> None:
    """Lightning writes what the module logs in rows of their own, which come after those of the rates."""
    table = tmp_path / "metrics.csv"

    def write(header: str, *rows: str, how: str = "w") -> None:
        with table.open(how) as file:  # as csv.DictWriter ends its lines
            more = "," * rows[0].endswith(",")
            each = [line for row in rows for line in (row, of_loss and of_loss + more)]
            file.write("".join(f"{line}\r\n" for line in (header, *each) if line))

    write(CSV_HEADER, *map(csv_row, range(2, 600)))
    log, source = Job(), LogFile(table, from_start=False)

    def stated() -> list[int | None]:
        log.now += STEP_SECONDS
        calls = [log.tail.take(line) for line in source.read()]
        return steps([call for call in calls if isinstance(call, Call)])

    write("", *map(csv_row, (600, 601)), how="a")
    assert stated() == [601]
    if is_written_again:
        write(CSV_HEADER + ",val_loss", *(csv_row(n) + "," for n in range(2, 603)))
        assert stated() == [602]
        write("", csv_row(603) + ",", how="a")
        assert stated() == [603]
    write(CSV_HEADER, csv_row(5), csv_row(6))
    assert stated() == [6], "of another run in the same place"
    write("", csv_row(7), how="a")
    assert stated() == [7]
    assert not log.tail.drops


@pytest.mark.slow
def test_a_very_long_line_costs_itself_and_its_length() -> None:
    """Of spaces, brackets, quotes and digits, behind what each form begins with."""
    log = Job()
    log.follow("Profile Summary at step 3", CSV_HEADER)
    for text in (" ", ": ", '"', "9", "1,", "[", "{'loss': 1, ", "\x1b["):
        for begin in ("", "fwd flops per GPU: ", "iteration 1/ ", "step 00001 (", "perf 1: {"):
            log.follow((begin + text * (1 << 17))[: 1 << 17])
    log.follow("-----")
    assert log.tail.drops[Drop.UNREADABLE] > 0
    assert all(len(text) < 500 for text in log.said)


SUMMARY = """\
-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 21:
world size:                                                   8
fwd MACs per GPU:                                             806453.19 GMACs
fwd flops per GPU:                                            1612906.92 G
fwd flops of model = fwd flops per GPU * mp_size:             1612906.92 G
fwd latency:                                                  4.0 s
fwd FLOPS per GPU = fwd flops per GPU / fwd latency:          403.2 TFLOPS
bwd latency:                                                  8.0 s
bwd FLOPS per GPU = 2 * fwd flops per GPU / bwd latency:      403.2 TFLOPS
fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency):   403.2 TFLOPS
step latency:                                                 0.5 s
iter latency:                                                 12.5 s
FLOPS per GPU = 3 * fwd flops per GPU / iter latency:         387.1 TFLOPS
samples/second:                                               1.28
----------------------------- Aggregated Profile per GPU -----------------------------"""


@every(["", "0: ", "node-7: ", "[rank0]: ", "[2026-01-01 10:00:00] node-7: "])
def test_a_summary_of_deepspeed_may_stand_behind_a_prefix(prefix: str) -> None:
    """3 x 1,612.9 TFLOP in 12.5 s, as the summary itself says."""
    old = SUMMARY.replace("fwd flops per GPU:      ", "fwd flops per GPU = 2 * fwd MACs per GPU:")
    for summary in (SUMMARY, old):
        log = Job()
        (report,) = log.follow("\n".join(prefix + line for line in summary.split("\n")))
        assert report.values["tflops_per_gpu"] == pytest.approx(387.1, rel=1e-4)
        assert report.step == 21


def test_where_no_line_is_known_the_forms_and_the_client_are_named() -> None:
    log = Job()
    log.follow(*["hello"] * (UNKNOWN_AFTER + 1))
    log.tail.close()
    (said,) = log.said
    assert all(name in said for name in readers.log_names())
    assert "From Python" in said
    short = Job()
    short.follow("hello")
    short.tail.close()
    assert short.said == [said]


@every(["", "0: ", "[rank0]:", "12: [default0]:", "(RayActor pid=12, ip=10.0.0.1) "])
def test_an_indented_line_of_an_old_block_was_written_with_its_first_line(prefix: str) -> None:
    log = Job()
    lines = FORMS["OLMo-core"][1](1).replace("2026-01-01 10:00:00.123", "2023-11-14T22:13:10Z")
    calls = [log.tail.take(TailLine(prefix + line, False)) for line in lines.split("\n")]
    assert [call.at for call in calls if isinstance(call, Call)] == [START - 10]


def test_a_progress_bar_ends_its_lines_with_a_return(tmp_path: Path) -> None:
    log = tmp_path / "bar.log"
    log.write_bytes(b"\rstep 1\rstep 2\r\n")
    assert [line.text for line in LogFile(log, from_start=True).read() if line.text] == [
        "step 1",
        "step 2",
    ]
