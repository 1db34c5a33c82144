"""Pages of serving engines that mean harm: what they served stays finite, only grows, and outlives the agent."""

from __future__ import annotations

import contextlib
import math

from hypothesis import strategies as st

from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.served_ledger import Ledger
from ofu_exporter.settings import PullSetting
from tests.fuzz.documents import NUMBERS, TEXTS, cut
from tests.reports.test_engine_pages import LLAMA, SGLANG, VLLM

ENGINE = PullSetting(job_id="chat", url="http://127.0.0.1:1/metrics")
_WORDS = sorted(
    {line.split("{")[0].split(" ")[0] for line in (VLLM + SGLANG + LLAMA).split("\n")} - {"#", ""}
)
_LINES = st.builds(
    '{}{{model_name="{}"}} {}'.format,
    st.sampled_from(_WORDS),
    st.sampled_from(["m", ""]) | TEXTS,
    st.sampled_from(["4", "44.5", "1e400", "-4", "+Inf", "NaN"]) | NUMBERS,
)
PAGES = cut(
    st.lists(_LINES | st.sampled_from([VLLM, SGLANG, LLAMA]), max_size=12)
    .map("\n".join)
    .map(lambda text: text.encode("utf-8", "replace"))
)


def check_engine(data: bytes) -> None:
    """A page and the next, on which other values stand; then the agent is started anew."""
    text = data.decode("utf-8", "replace")
    ledger = Ledger()
    (tally,) = ledger.begin_tallies([ENGINE])
    for at, shown in enumerate((text, text.replace("4", "5"), text)):
        with contextlib.suppress(ValueError):
            if page := engine_pages.read(shown):
                before = dict(tally.served.tokens)
                tally.take(page, 100.0 + at)
                after = tally.served.tokens
                assert all(math.isfinite(value) and value >= 0 for value in after.values()), after
                assert all(after[name] >= value for name, value in before.items()), (before, after)
    kept = ledger.kept().model_dump_json()
    again = Ledger()
    again.resume(KeptServed.model_validate_json(kept))
    assert again.kept().model_dump_json() == kept
