"""Where an agent's memory is with the real driver: `python -m tests.hardware.agent_memory FILE [SECONDS]`.

FILE gets what a bare interpreter takes, what it takes with the driver's library open and a GPM sample taken, and what
an agent at its default settings takes after SECONDS, by mapped file, the largest first. In bytes of /proc/PID/smaps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.hardware.counters import pause
from tests.helpers.agent import agent, until

LARGEST = 25
BARE = "import sys; print(flush=True); sys.stdin.read()"
OPEN = f"""import pynvml
pynvml.nvmlInit()
sample = pynvml.nvmlGpmSampleAlloc()
pynvml.nvmlGpmSampleGet(pynvml.nvmlDeviceGetHandleByIndex(0), sample)
{BARE}"""


def memory(pid: int) -> Mapping[str, Any]:
    """Bytes: resident, private, own (shared pages divided), and resident ones of the largest files and the driver's."""
    of_file: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    name = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            name = Path(words[5]).name if len(words) > 5 else "anonymous"
        elif words[0] in ("Rss:", "Pss:", "Private_Clean:", "Private_Dirty:"):
            totals[words[0].split("_")[0].rstrip(":").lower()] += 1024 * int(words[1])
            of_file[name] += 1024 * int(words[1]) if words[0] == "Rss:" else 0
    files = dict(of_file.most_common(LARGEST))
    return {**totals, "files": files | {n: b for n, b in of_file.items() if "nvidia" in n}}


def of_program(body: str) -> Mapping[str, Any]:
    """What an interpreter takes once it has run this."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", body], stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        process.stdout.readline()
        found = memory(process.pid)
        process.communicate()
    return found


def main(args: Sequence[str]) -> None:
    if len(args) not in (1, 2):
        raise SystemExit(__doc__)
    answer = {"interpreter": of_program(BARE), "with_driver": of_program(OPEN)}
    command = (sys.executable, "-m", "ofu_exporter")
    with agent("run", "--scheduler", "none", command=command) as running:
        until(lambda: running.values("ofu_gpu_up"))
        answer["agent_at_first"] = memory(running.process.pid)
        pause(float(args[1]) if args[1:] else 20.0)
        answer["agent"] = memory(running.process.pid)
    Path(args[0]).write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
