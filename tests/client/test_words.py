"""What the client says of each mistake, in the log and in its errors, golden: each is made here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ofu_exporter.client import Reporter, identity
from ofu_exporter.client.channel import Channel
from ofu_exporter.client.intervals import NotUsable, finite_number
from tests.doubles.report_agent import Reply, report_agent

REFUSED = "http://127.0.0.1:1"


class OnGpu:
    """A tensor that is on a GPU."""

    device = SimpleNamespace(type="cuda")

    def __float__(self) -> float:
        raise AssertionError("whoever reads it waits for the GPU")


class Angry:
    """A value whose every use raises."""

    def __float__(self) -> float:
        raise ZeroDivisionError("no")


CALLS: dict[str, Callable[[Any], object]] = {
    "two rates": lambda job: job.report(mfu=0.4, tflops_per_gpu=300.0),
    "nothing": lambda job: job.report(),
    "tokens alone": lambda job: job.report(tokens_per_second=1e6),
    "a text": lambda job: job.report(mfu="0.4"),
    "a truth": lambda job: job.report(mfu=True),
    "bytes": lambda job: job.report(mfu=b"1"),
    "below 0": lambda job: job.report(mfu=-0.1),
    "infinite": lambda job: job.report(mfu=float("inf")),
    "no number": lambda job: job.report(mfu=float("nan")),
    "on a GPU": lambda job: job.report(mfu=OnGpu()),
    "a value that raises": lambda job: job.report(mfu=Angry()),
    "a start that is none": lambda job: job.report(mfu=0.4, start="soon"),
    "a start to come": lambda job: job.report(mfu=0.4, start=time.time() + 60.0),
    "a start now": lambda job: job.report(mfu=0.4, start=1e9 + 5),
    "an argument that is none": lambda job: job.report(mfu=0.4, mfuu=1, start=1e9),
    "a value without a name": lambda job: job.report(0.4, 0.5),
    "an event of no time": lambda job: job.event("checkpoint", "soon"),
    "an event that raises": lambda job: job.event("checkpoint", Angry()),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "no job": {"job_id": None},
    "an address of nothing": {"url": "ftp://user:secret@host"},
    "a port of letters": {"url": "http://host:abc"},
    "a socket without its path": {"url": "unix:relative"},
    "a token that no header carries": {"token": "a\nb"},
    "facts that there are not": {"gpuss": 1, "colour": 2},
    "a fact that is no JSON": {"framework": Angry()},
    "not the first of its node": {"enabled": False},
}


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OFU_EXPORTER_JOB_ID", "SLURM_JOB_ID", "OFU_EXPORTER_URL", "OFU_AGENT", "OFU_RUN"):
        monkeypatch.delenv(name, raising=False)


def of_calls(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    for name, call in CALLS.items():
        caplog.clear()
        seconds = count(1_000_000_001)  # a warning takes one, before Python 3.13
        with pytest.MonkeyPatch.context() as patch:
            reporter = Reporter(job_id="7", url=REFUSED, every=3600.0)
            if name not in ("a start to come",):
                patch.setattr("ofu_exporter.client.reporter.time.time", lambda at=seconds: next(at))
            call(reporter)
        yield f"{name}: {[each.getMessage() for each in caplog.records]} {reporter.counts}"
        reporter._sender = None


def of_options(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    for name, options in OPTIONS.items():
        caplog.clear()
        reporter = Reporter(**{"job_id": "7", "url": REFUSED, **options})
        said = [each.getMessage() for each in caplog.records]
        yield f"{name}: {said} disabled: {reporter.disabled!r}"


def of_answers(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    replies = {
        "no JSON": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"),
        "a list": Reply(200, [1]),
        "an error": Reply(500, {}),
        "refused": Reply(422, {"detail": [{"type": "out_of_range", "msg": "too much"}]}),
        "refused in no form": Reply(403, [1]),
        "not there": Reply(404, {"detail": "no such page"}),
        "too many": Reply(429, {"detail": "later"}, {"Retry-After": "60"}),
        "gone": Reply(vanish=True),
    }
    with report_agent() as agent:
        for name, reply in replies.items():
            caplog.clear()
            agent.behave = lambda *_, reply=reply: reply
            with Reporter(job_id="7", url=agent.url, every=0.0) as reporter:
                reporter.report(mfu=0.4, start=time.time() - 10.0)
            said = [each.getMessage().replace(agent.url, "URL") for each in caplog.records]
            yield f"{name}: {said} {reporter.counts}"


def refusal(call: Callable[[], object]) -> str:
    try:
        return repr(call())
    except (ValueError, OSError, NotUsable) as error:
        return f"{type(error).__name__}: {error}"


def of_parts(folder: Path) -> Iterator[str]:
    for url in ("localhost:9846", "http://", "http://user:secret@:80", "http://a:b", "unix:x"):
        yield f"{url}: {refusal(lambda url=url: Channel(url, {}))}"  # type: ignore[misc]
    values: tuple[object, ...] = (0.0, 1, -0.0, -1, None, "1", [], OnGpu())
    for value in values:
        yield f"{type(value).__name__}: {refusal(lambda value=value: finite_number(value))}"  # type: ignore[misc]
    (folder / "long.json").write_text("1" * (identity.MOST_RECIPE_BYTES + 1))
    (folder / "broken.json").write_text("{")
    for environ in (
        {},
        {"OFU_EXPORTER_RECIPE": "llama"},
        {"OFU_EXPORTER_RECIPE": "llama", "OFU_EXPORTER_SEQ_LEN": "4096"},
        {"OFU_EXPORTER_RECIPE": "llama", "OFU_EXPORTER_SEQ_LEN": "many"},
        {"OFU_EXPORTER_RECIPE": f"{folder}/long.json"},
        {"OFU_EXPORTER_RECIPE": f"{folder}/broken.json"},
        {"OFU_EXPORTER_RECIPE": f"{folder}/absent.json"},
    ):
        said = refusal(lambda environ=environ: identity.model_facts(environ))  # type: ignore[misc]
        yield f"{environ}: {said}".replace(str(folder), "FOLDER")


def test_what_is_said_of_a_mistake_is_as_it_was(
    caplog: pytest.LogCaptureFixture, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "ofu_exporter.client")
    said = [*of_calls(caplog), *of_options(caplog), *of_answers(caplog), *of_parts(tmp_path)]
    golden("words/client.txt", "\n".join(said) + "\n")
