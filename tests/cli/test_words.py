"""What commands say of options that cannot be used, golden: nothing is asked, read or measured before."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from ofu_exporter.cli import option_types as types
from ofu_exporter.errors import ConfigError
from tests.flops.counting import LLAMA
from tests.helpers.in_process import call

STEP = "--seq-len 4096"
SERVER = "--prometheus http://127.0.0.1:1"
H100 = "--gpu H100-SXM5-80GB"
REFUSED = f"""
nonsense
fleet nonsense
help nonsense
flops
flops nowhere.json
flops CONFIG CONFIG --executed
flops CONFIG {STEP} --save x.json
flops CONFIG
flops CONFIG --seq-len 0
flops CONFIG --seq-len -1
flops CONFIG --seq-len 1.5
flops CONFIG --seq-len many
flops CONFIG --seq-len 99999999999999999999
flops CONFIG --seq-len 4,0,96
flops CONFIG {STEP} --batch-size 0
flops CONFIG {STEP} --moments 4000,2e7
flops CONFIG --moments 4000
flops CONFIG --moments 4000,x
flops CONFIG --moments 4000,inf
flops CONFIG --length tokens
flops CONFIG --length tokens=many
flops CONFIG --length tokens=99999999999999999999
flops CONFIG --length tokens=0
flops CONFIG {STEP} --length image=9
flops CONFIG {STEP} --padded-to 4095
flops CONFIG {STEP} --recompute half
flops CONFIG {STEP} --recompute-layers 3
flops CONFIG {STEP} --lora-targets q_proj
flops CONFIG {STEP} --lora-rank 0
flops CONFIG {STEP} --lora-rank 8 --lora-targets nothing
flops CONFIG {STEP} --freeze vision
flops CONFIG {STEP} --convention nobodys
flops CONFIG {STEP} --repeats 0
flops CONFIG {STEP} --format xml
flops CONFIG {STEP} --nonsense
mfu CONFIG {STEP}
mfu CONFIG {STEP} {H100} --gpus 8
mfu CONFIG {STEP} {H100} --gpus 8 --step-seconds 1
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --step-seconds 1 --batch-size 1
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 0
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second fast
mfu CONFIG {STEP} {H100} --gpus 0 --tokens-per-second 1k
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --precision bf17
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --precision bf16=0.5,bf16=0.5
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --precision bf16=0.5,fp8=0.6
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --precision bf16=half
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --precision bf16=0
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --peak-tflops 0
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --peak-tflops 1e15
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --reported-mfu 140%
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1k --reported-mfu 1.6
mfu CONFIG {STEP} {H100} --gpus 8 --tokens-per-second 1e30
mfu CONFIG {STEP} --gpu H1000 --gpus 8 --tokens-per-second 1k
mfu CONFIG {STEP} --gpu MI300X --gpus 8 --tokens-per-second 1k
explain --mfu 0.4
explain --mfu 0.4 --ofu 140%
explain --mfu high --ofu 0.3
explain --mfu 0.4 --ofu 0
explain --mfu 0.4 --ofu 0.3 --ofu-stderr 2
explain --mfu 0.4 --ofu 0.3 --precision bf17
explain --mfu 0.4 --ofu 0.3 --gpu nobody
explain --mfu 0.4 --ofu 0.3 --gpus 0
explain --mfu 0.4 --ofu 0.3 --recompute half
explain --mfu 0.4 --ofu 0.3 --seq-len 4096
explain --mfu 0.4 --ofu 0.3 --batch-size 2
explain --mfu 0.4 --ofu 0.3 --lora-rank 2
explain --mfu 0.4 --ofu 0.3 --tokens-per-second 1k
explain --mfu 0.4 --ofu 0.3 --config CONFIG {STEP} --tokens-per-second 1k
explain --mfu 0.4 --ofu 0.3 --config CONFIG {STEP} --pack-length 4095
explain --mfu 0.4 --ofu 0.3 --tile-overhead -1%
tile kernel
tile kernel --m 1
tile kernel --m 1 --n 2
tile kernel --m 1 --n 2 --k 0
tile kernel --m 1 --n 2 --k 3 --group 1,2,3
tile kernel --group 1,2
tile kernel --group 1,2,3 --batch 2
tile kernel --group 1,2,3 --groups x.csv
tile kernel --groups nowhere.csv
profile
profile nowhere.json
profile nowhere.json --post
profile nowhere.json --job 7
profile nowhere.json --shapes nowhere.csv
list nonsense
run --interval 0.01s
run --interval 31s
run --interval soon
run --interval -1s
run --source nothing
run --scheduler nothing
run --scheduler slurm,none
run --horizon 1m
run --mfu-above 2
run --mfu-below x
run --tls-key x
run --log-level loud
run --log-format xml
run --telemetry-path metrics
run --listen nowhere
run --source nvml --dcgm-interval 1s
run --source dcgm-exporter --url nowhere
run --source dcgm --dcgm-address here:now
run --source simulate --simulated-gpus 0
run --source simulate --simulated-gpus many
run --source replay
run --config nowhere.yaml
run --config EMPTY/bad.yaml
run --config EMPTY/list.yaml
run --config EMPTY/unknown.yaml
run --config EMPTY/wrong.yaml
check --interval 99s
record
record EMPTY/there.jsonl
record EMPTY/x.jsonl --duration soon
check --bundle EMPTY/there.jsonl
top --agent http://a --hosts b --once
top --hosts a --hosts-file b --once
top --hosts n[1- --once
top --hosts n[3-1] --once
top --hosts-file nowhere --once
top --hosts a --source simulate --once
top --view nothing
top --once --width 0
job show 7 --agent ftp://x
job gather
job gather 7
job gather 7 --nodes a --running
job start --job-id x
pause --for soon
pause --by a/b
pause --dcgm-address embedded
pause --dcgm-address here:now
resume --by ../x
trace
trace x?y
trace 7 --gpus one
trace 7 --gpus 1,,2
tail
tail EMPTY/nowhere.log --job 7 --once --agent http://127.0.0.1:1
tail EMPTY/nowhere.log --once
tail EMPTY/there.jsonl --job 7 --agent nowhere
tail EMPTY/there.jsonl --job 7 --framework nothing
validate --report
validate --seconds 0
validate --precisions bf17
fleet report --since 10m {SERVER}
fleet report --since 6y {SERVER}
fleet report --since soon {SERVER}
fleet report --by nothing
fleet report --format xml
fleet report --target 2 {SERVER}
fleet report --rows 0
fleet report --changes x.json --no-changes {SERVER}
fleet report --changes x.json --format csv {SERVER}
fleet report --changes nowhere.json --format json {SERVER}
fleet report --changes x.json --hosts a
fleet report --hosts a --prometheus http://b
fleet report --hosts a --until 2026-01-01
fleet report --hosts a --hosts-file b
fleet report --hosts a --from dcgm-exporter
fleet report --hosts-file nowhere
fleet report --hosts n[3-1]
fleet report --hosts n[1-
fleet report --folder x --format csv
fleet report --folder x --output y
fleet report --config x.yaml {SERVER}
fleet report --prices nowhere.yaml {SERVER}
fleet report --folder EMPTY --send --config EMPTY/empty.yaml
fleet report --prometheus ftp://x
fleet report --prometheus http://
fleet report --prometheus http://a:b
fleet report --user ada {SERVER}
fleet report --password-file x {SERVER}
fleet report --bearer-token-file nowhere {SERVER}
fleet digest --config nowhere.yaml {SERVER}
fleet digest --send {SERVER}
fleet digest --by nothing
fleet changes --least x
fleet changes --rows 0
fleet job
fleet job 7 --format csv
fleet simulate nowhere.yaml
fleet simulate EMPTY/empty.yaml --speed 0
fleet simulate EMPTY/empty.yaml --speed 1e9
files EMPTY
files EMPTY/there.jsonl
completion tcsh
demo --output x.html
demo --port 1 --listen 127.0.0.1:2
demo --port many
demo --source nvml
demo --source auto
"""
OTHERS_WORDS = re.compile(r"(Invalid value for|No such|Missing|Input should|String should) .*")
"""Click's and pydantic's, which differ from version to version."""
QUANTITIES = {
    name: getattr(types, name)
    for name in ("INTEGER", "WHOLE_FROM_1", "DURATION", "RATIO", "ANY_MFU", "OVERHEAD", "STDERR")
} | {"NUMBER": types.NUMBER, "TFLOPS": types.TFLOPS}
TEXTS = (
    *("", " ", "x", "nan", "inf", "-inf", "-1", "-0.5", "-5%", "0", "0%", "00", "0.0", "1", "+1"),
    *("1.0", "0.5", "50%", "50 %", "1%", "99.9%", "100%", "101%", "150%", "151%", "1.49", "1.5"),
    *("1.51", "41", "200%", "1000%", "1001%", "10", "10.01", "8,192", "81,92", "8192", "12k"),
    *("12K", "1.5k", "2M", "2m", "1e3", "1e6", "1_000", "5s", "500ms", "2h", "3d", "1w", "1.5h"),
    *("5 s", "s", "9007199254740992", "9007199254740993", "1e15", "1e400", "\u00bd", "\u0661"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    files = {
        "there.jsonl": "{}\n",
        "bad.yaml": "a: [",
        "list.yaml": "- a",
        "unknown.yaml": "intervall: 5s",
        "wrong.yaml": "interval: soon",
        "empty.yaml": "",
    }
    for name, text in files.items():
        (made / name).write_text(text)
    return made


def said(line: str, folder: Path, notes: Path) -> str:
    """`notes` is where a terminal session notes which short names of GPUs it was told of."""
    words = [LLAMA if word == "CONFIG" else word for word in shlex.split(line)]
    env = {"XDG_RUNTIME_DIR": str(notes)}
    done = call(*(word.replace("EMPTY", str(folder)) for word in words), env=env)
    text = f"{done.stdout}{done.stderr}".replace(str(folder), "EMPTY").replace(LLAMA, "CONFIG")
    text = OTHERS_WORDS.sub("(in the words of a library)", text)
    usage = [each for each in text.splitlines() if not each.startswith(("Usage:", "Try '"))]
    return "".join(f"  {each}\n" for each in usage if each)


@pytest.mark.parametrize(
    "command", dict.fromkeys(line.split()[0] for line in REFUSED.split("\n") if line)
)
def test_what_cannot_be_used_is_refused_in_the_same_words(
    command: str,
    folder: Path,
    tmp_path: Path,
    golden: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    lines = [line for line in REFUSED.split("\n") if line.split()[:1] == [command]]
    golden(
        f"words/{command}.txt", "".join(f"{line}\n{said(line, folder, tmp_path)}" for line in lines)
    )


def read(kind: object, text: str) -> str:
    try:
        return repr(kind.convert(text, None, None))  # type: ignore[attr-defined]
    except ConfigError as error:
        return str(error)
    except click.BadParameter:
        return "refused by click"


def test_what_a_number_is_taken_for_is_as_it_was(golden: Callable[[str, str], None]) -> None:
    lines = [
        f"{name} {text!r}: {read(kind, text)}"
        for name, kind in QUANTITIES.items()
        for text in TEXTS
    ]
    golden("words/numbers.txt", "\n".join(lines) + "\n")
