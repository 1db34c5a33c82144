"""Readers of what frameworks write, on lines in the form that they write, with published numbers."""

from __future__ import annotations

import json
import re
import time

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.readers import JobFacts, Statement, huggingface, serving

H100_PEAK = 989.4e12


def read(name: str, text: str, **job: float | int) -> list[Statement]:
    return readers.load(name).read(text, JobFacts(**job))  # type: ignore[arg-type]


MEGATRON = """\
 [2025-11-28 18:48:17] iteration       50/    5000 | consumed samples:        51200 | elapsed time per iteration (ms): \
61674.3 | throughput per GPU (TFLOP/s/GPU): 68.2 | learning rate: 1.0E-04 | global batch size:  1024 |
 validation loss at iteration 50 | lm loss value: 2.1
 [2025-11-28 18:53:25] iteration       55/    5000 | consumed samples:        56320 | elapsed time per iteration (ms): \
61614.9 | throughput per GPU (TFLOP/s/GPU): 412.5
"""


def test_megatron_lines() -> None:
    first, second = read("megatron", MEGATRON, peak_flops=H100_PEAK)
    assert (first.step, second.step) == (50, 55)
    assert first.seconds == pytest.approx(61.6743)
    assert first.flops_per_second == pytest.approx(68.2e12)
    assert first.flops == pytest.approx(68.2e12 * 61.6743)
    assert second.mfu == pytest.approx(0.41692, abs=1e-5)


def test_megatron_forks_say_compute_per_gpu() -> None:
    line = "iteration 7/ 9 | elapsed time per iteration (ms): 10.0 | compute per GPU (TFLOP/s/GPU): 496.3 (avg 496.1)"
    assert read("megatron", line)[0].flops_per_second == pytest.approx(496.3e12)
    assert read("megatron", line)[0].mfu is None, "no peak, no MFU"


VERL = (
    "step:1 - actor/entropy:0.323 - perf/mfu/actor:0.343 - perf/max_memory_allocated_gb:62.447 - "
    "perf/mfu/actor_infer:0.512 - perf/time_per_step:98.5 - perf/throughput:1234.5"
)


def test_verl_console_lines() -> None:
    actor, infer = read("verl", f"noise\n{VERL}\n", peak_flops=H100_PEAK)
    assert (actor.step, actor.name, actor.mfu) == (1, "actor", 0.343)
    assert (infer.name, infer.mfu, infer.seconds) == ("actor_infer", 0.512, 98.5)
    assert actor.flops_per_second == pytest.approx(0.343 * H100_PEAK)


def test_verl_with_scalars_as_numpy_prints_them() -> None:
    line = re.sub(r"(perf/\S+?):(\S+)", r"\1:np.float64(\2)", VERL)
    assert read("verl", line) == read("verl", VERL)


def test_verl_json_lines() -> None:
    logged = json.dumps({"step": 4, "data": {"perf/mfu/actor": 0.41, "actor/lr": 1e-6}})
    assert read("verl", logged)[0] == Statement(step=4, name="actor", mfu=0.41)
    flat = json.dumps({"perf/mfu/actor": 0.5, "perf/mfu/ref": 0.6, "training/global_step": 3})
    assert [(r.step, r.name, r.mfu) for r in read("verl", flat)] == [
        (3, "actor", 0.5),
        (3, "ref", 0.6),
    ]


def test_verl_omni_divides_by_the_world_where_it_took_the_data_parallel_size() -> None:
    """8 GPUs, 2 of them data parallel: reported 1.2, right 0.3."""
    line = '{"perf/mfu/actor": 1.2}'
    corrected = read("verl", line, world_size=8, data_parallel_size=2)[0]
    assert corrected.mfu == pytest.approx(0.3)
    assert "instead of 2, the data-parallel size" in corrected.notes[0]
    assert read("verl", line, world_size=8)[0].mfu == 1.2
    with pytest.raises(ConfigError, match="data_parallel_size: 3 does not divide world_size 8"):
        read("verl", line, world_size=8, data_parallel_size=3)


DEEPSPEED = """\
-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 10:
world size:                                                   1
batch size per GPU:                                           80
params per gpu:                                               336.23 M
fwd MACs per GPU:                                             3139.93 G
fwd flops per GPU:                                            6279.86 G
fwd flops of model = fwd flops per GPU * mp_size:             6279.86 G
fwd latency:                                                  76.67 ms
bwd latency:                                                  108.02 ms
step latency:                                                 34.09 us
iter latency:                                                 184.73 ms
samples/second:                                               433.07
"""


def test_deepspeed_summary() -> None:
    report = read("deepspeed", DEEPSPEED, peak_flops=125e12)[0]
    assert report.step == 10
    assert report.flops == pytest.approx(3 * 6279.86e9)
    assert report.seconds == pytest.approx(0.18473)
    assert report.mfu == pytest.approx(3 * 6279.86e9 / 0.18473 / 125e12)


@pytest.mark.parametrize(
    ("unit", "flops"), [("", 1), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15)]
)
def test_an_amount_of_deepspeed_has_its_unit(unit: str, flops: float) -> None:
    text = re.sub(r"(?m)^(fwd flops per GPU: .*) G$", rf"\1 {unit}", DEEPSPEED)
    assert read("deepspeed", text)[0].flops == pytest.approx(3 * 6279.86 * flops)


@pytest.mark.parametrize(("unit", "seconds"), [("us", 1e-6), ("ms", 1e-3), ("s", 1)])
def test_a_latency_of_deepspeed_has_its_unit(unit: str, seconds: float) -> None:
    text = DEEPSPEED.replace("184.73 ms", f"184.73 {unit}")
    assert read("deepspeed", text)[0].seconds == pytest.approx(184.73 * seconds)


def test_deepspeed_without_an_optimizer_step() -> None:
    text = re.sub("(step|iter) latency.*\n", "", DEEPSPEED)
    assert read("deepspeed", text)[0].seconds == pytest.approx(0.07667 + 0.10802)
    with pytest.raises(
        ConfigError, match=r"`iter latency`, or `fwd` and `bwd latency`, are missing"
    ):
        read("deepspeed", re.sub("bwd latency.*\n", "", text))


ACCUMULATED = """\
Profile Summary at step {step}:
fwd flops per GPU:                                                      268.44 M
fwd flops of model = fwd flops per GPU * mp_size:                       268.44 M
fwd latency:                                                            {forward} ms
iter latency:                                                           {whole} ms
FLOPS per GPU = 4 * fwd flops per GPU / iter latency:                   {rate} GFLOPS

----------------------------- Aggregated Profile per GPU -----------------------------"""
TIMERS = "[Rank 0] time (ms) | fwd: 16.96 | bwd: 33.56 | bwd_inner: 31.2 | bwd_allreduce: 2.3 | step: 9.43"


def test_a_micro_batch_of_deepspeed_has_its_own_time() -> None:
    """What 0.19.8 prints of a step with gradient_accumulation_steps=4: latencies since the first micro-batch."""
    micro = ((3, 4.41, 10.48, 102.45), (3, 8.52, 22.93, 46.83), (3, 12.8, 34.06, 31.53))
    summaries = [
        ACCUMULATED.format(step=step, forward=forward, whole=whole, rate=rate)
        for step, forward, whole, rate in (*micro, (4, 16.96, 59.96, 17.91))
    ]
    follower = readers.follower("deepspeed", JobFacts())

    def stated(text: str) -> list[tuple[int | None, float]]:
        lines = [follower.line(line) for line in text.split("\n")]
        return [(one.step, round(1e3 * (one.seconds or 0), 2)) for one in lines if one]

    own = [(3, 10.48), (3, 12.45), (3, 11.13), (4, 25.9)]
    assert stated("\n".join(summaries)) == own
    slower = summaries[-1].replace("59.96", "61.0")
    assert stated("\n".join([TIMERS, *summaries, TIMERS, slower])) == [*own, (4, 61.0)]
    assert stated("\n".join([TIMERS, slower, TIMERS, slower.replace("61.0", "62.0")])) == [
        (4, 61.0),
        (4, 62.0),
    ], "of two runs in one log, without accumulation"
    whole = readers.load("deepspeed").read("\n".join(summaries), JobFacts())
    assert [round(1e3 * (one.seconds or 0), 2) for one in whole] == [time for _, time in own]
    rate = whole[1].flops_per_second
    assert rate == pytest.approx(3 * 268.44e6 / 12.45e-3)


KERNELS = """\
Step Id,Device_id,Name,Type,Duration(us), aic_cube_fops
12,0,MatMul,MatMulV2,10.0,1.0e+15
12,0,Cast,Cast,1.0,N/A
12,0,MatMulBackward,MatMulV2,20.0,0.62099e+15
"""


def test_torch_npu_kernels() -> None:
    """1.62099e15 FLOPs in 10.64 s on a card of 354 TFLOP/s is 43.04 %, not 4.3 %."""
    report = read("torch_npu", KERNELS, peak_flops=354e12, step_seconds=10.64)[0]
    assert report.step == 12
    assert report.flops == pytest.approx(1.62099e15)
    assert report.hfu == pytest.approx(0.4304, abs=5e-5)
    assert report.mfu is None, "the hardware's count has recomputation in it"
    assert "recomputation" in report.notes[0]


def test_torch_npu_steps_are_kept_apart() -> None:
    text = KERNELS + "13,0,MatMul,MatMulV2,10.0,2.0e+15\n"
    assert [report.step for report in read("torch_npu", text)] == [12, 13]


START = {"world_size": 288, "data_parallel_size": 36, "global_batch_size": 1152}
AVERAGE = {
    "train_iterations_end": 200,
    "train_iterations_time_total": 1000.0,
    "train_tflop": 288 * 1000.0 * 0.5427 * 989.4,
    "train_throughput_per_gpu": 0.5427 * 989.4,
}


def test_onelogger_json_lines() -> None:
    text = "\n".join(json.dumps(record) for record in (START, AVERAGE))
    report = read("onelogger", text, peak_flops=H100_PEAK)[0]
    assert report.step == 200
    assert report.mfu == pytest.approx(0.5427)
    assert report.seconds == 1000.0


def test_gpus_that_a_job_is_said_to_have_divide_what_onelogger_counts() -> None:
    whole = json.dumps({**START, **AVERAGE})
    (half,) = read("onelogger", whole, world_size=576)
    assert half.flops == pytest.approx(1000.0 * 0.5427 * H100_PEAK / 2)


def test_onelogger_objects() -> None:
    whole = json.dumps({**START, **AVERAGE})
    inside = json.dumps([{"metrics": START}, {"metrics": AVERAGE}])
    assert read("onelogger", whole) == read("onelogger", inside)
    rate = read("onelogger", json.dumps({"train_throughput_per_gpu": 400.0}))[0]
    assert rate.flops_per_second == pytest.approx(400e12)
    with pytest.raises(ConfigError, match="needs train_iterations_time_total and world_size"):
        read("onelogger", json.dumps(AVERAGE))


PAGE = """\
# TYPE vllm:estimated_flops_per_gpu_total counter
vllm:estimated_flops_per_gpu_total{engine="0",model_name="m"} 1.0e+15
vllm:estimated_flops_per_gpu_total{engine="1",model_name="m"} 3.0e+15
vllm:estimated_read_bytes_per_gpu_total{engine="0",model_name="m"} 7
"""


def test_serving_counters() -> None:
    zero, one = read("serving", PAGE)
    assert (zero.flops, one.flops) == (1e15, 3e15)
    assert 'engine="1"' in one.name
    assert read("serving", "sglang:estimated_flops_per_gpu_total 5\n")[0].flops == 5


def test_serving_rates_are_per_engine() -> None:
    later = PAGE.replace("1.0e+15", "6.0e+15").replace("3.0e+15", "4.0e+15")
    busy, idle = serving.between(PAGE, later, 10.0, JobFacts(peak_flops=1e15))
    assert busy.mfu == pytest.approx(0.5)
    assert idle.mfu == pytest.approx(0.1)
    with pytest.raises(ConfigError, match="went back: the engine was restarted"):
        serving.between(later, PAGE, 10.0, JobFacts())
    with pytest.raises(ConfigError, match=r"seconds: 0\.0 is not above 0"):
        serving.between(PAGE, later, 0.0, JobFacts())
    with pytest.raises(ConfigError, match="no engine on both pages"):
        serving.between(PAGE, later.replace('"m"', '"other"'), 10.0, JobFacts())


@pytest.mark.parametrize("name", readers.names())
@pytest.mark.parametrize("text", ["", "nothing of the kind\n", "\x00\ufffd"])
def test_every_reader_says_when_there_is_nothing(name: str, text: str) -> None:
    with pytest.raises(ConfigError):
        read(name, text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "megatron",
            MEGATRON.replace("68.2", "fast"),
            "throughput per GPU: 'fast' is not a number",
        ),
        ("megatron", MEGATRON.replace("412.5", "nan"), "'nan' is not a number of at least 0"),
        (
            "verl",
            VERL.replace("0.343", "-0.1"),
            "perf/mfu/actor: '-0.1' is not a number of at least 0",
        ),
        ("verl", '{"perf/mfu/actor": ', "verl metrics: not JSON"),
        ("deepspeed", DEEPSPEED.replace("184.73", "0"), "`iter latency` is 0"),
        ("deepspeed", DEEPSPEED.replace("fwd flops", "flops"), "`fwd flops per GPU` is missing"),
        ("torch_npu", "Name,Duration\na,1\n", "no column aic_cube_fops; profile with aic_metrics"),
        ("torch_npu", KERNELS.replace("1.0e+15", "-1"), "line 2: aic_cube_fops: '-1'"),
        ("onelogger", "[3]", "3 is not an object"),
        ("onelogger", '{"train_tflop": ', "OneLogger JSON: '{"),
        ("onelogger", '{"train_throughput_per_gpu": "x"}', "train_throughput_per_gpu: 'x'"),
        ("serving", PAGE.replace("1.0e+15", "NaN"), "estimated_flops_per_gpu_total: 'NaN'"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read(name, text)


def test_a_line_of_hugging_face_without_new_tokens_says_so_and_is_no_restart() -> None:
    follower = huggingface.Follower(JobFacts())
    text = "{'loss': 1.0, 'num_input_tokens_seen': %d, 'epoch': 0.1}"
    said = [follower.line(text % tokens) for tokens in (100, 100, 50, 90)]
    assert said == [Statement(), Statement(tokens=0), Statement(), Statement(tokens=40)]


def test_logs_are_followed_by_those_that_read_lines() -> None:
    assert {"deepspeed", "megatron", "onelogger", "verl"} <= {*readers.log_names()}
    assert not {"serving", "torch_npu"} & {*readers.log_names()}


def test_a_long_rule_in_a_log_takes_no_time() -> None:
    follower, begun = readers.follower("nemo_rl", JobFacts()), time.process_time()
    assert follower.line("=" * 30_000) is None
    assert time.process_time() - begun < 1


def test_readers_are_found_by_their_files() -> None:
    assert {"deepspeed", "megatron", "onelogger", "serving", "torch_npu", "verl"} <= {
        *readers.names()
    }
    with pytest.raises(
        ConfigError, match=f"unknown reader 'caffe'; known: {', '.join(readers.names())}"
    ):
        readers.load("caffe")


COMPOSER = """\
[epoch=1][batch=3/10]:
\t Train time/batch: 2
\t Train time/sample: 8
\t Train time/batch_in_epoch: 2
\t Train time/token: 256
\t Train loss/train/total: 4.8814
\t Train time/total: 0.0001
\t Train throughput/samples_per_sec: 35.5953
\t Train throughput/device/flops_per_sec: 149500113530240.4062
[epoch=1][batch=6/10]:
\t Train time/batch: 5
\t Train time/sample: 20
\t Train time/batch_in_epoch: 5
\t Train time/token: 640
\t Train loss/train/total: 4.6778
\t Train throughput/batches_per_sec: 10.6179
\t Train throughput/samples_per_sec: 42.4716
\t Train throughput/device/batches_per_sec: 10.6179
\t Train throughput/device/samples_per_sec: 42.4716
\t Train throughput/tokens_per_sec: 1359.0924
\t Train throughput/flops_per_sec: 178380880414778.0625
\t Train throughput/device/flops_per_sec: 178380880414778.0625
\t Train throughput/device/mfu: 0.1804
\t Train time/total: 0.0002
[epoch=1][batch=10/10]:
\t Train time/batch: 10
\t Train time/sample: 40
\t Train time/batch_in_epoch: 0
\t Train throughput/samples_per_sec: 21.4957
\t Train throughput/device/flops_per_sec: 90281810945078.5469
"""
"""As Composer 0.32.1 printed it, cut short, for a model of 4.2 TFLOPs a sample: the last values are of an epoch that
ended, and those of the first block came when SpeedMonitor's window was full."""


def test_flops_of_composer_are_those_of_the_samples_since_the_block_before() -> None:
    (one,) = read("composer", COMPOSER, peak_flops=H100_PEAK)
    assert (one.step, one.seconds) == (6, None)
    assert one.flops == pytest.approx(12 * 4.2e12)
    assert one.mfu == pytest.approx(178.38e12 / H100_PEAK, rel=1e-4)
