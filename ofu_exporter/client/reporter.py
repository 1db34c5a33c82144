"""Turns a training loop's calls into reports. It never raises, never waits, and drops what it can't use."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from ofu_exporter.client import identity
from ofu_exporter.client.channel import Channel
from ofu_exporter.client.intervals import Call, IntervalReport, Intervals, NotUsable, finite_number
from ofu_exporter.client.sender import OnceLog, Sender

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

LONGEST_LOCK_WAIT = 0.05
CLOSE_SECONDS = 5.0
"""Two answers of an agent take no longer, of the report under way and of the last one; that no agent listens is known
at once."""

log = logging.getLogger("ofu_exporter.client")


class Facts(TypedDict, total=False):
    """What does not change while the job runs. The facts are part of every report; `POST /v1/mfu` describes each."""

    gpus: int | None
    """GPUs of the whole job."""
    precision: str | Mapping[str, float] | None
    """A name, or shares of the FLOPs."""
    peak_tflops: float | None
    """TFLOP/s of one GPU that the job's own MFU divides by."""
    recompute: str | None
    """none, selective or full."""
    accumulation: int | None
    """Micro-batches whose gradients a step adds up."""
    pack_length: int | None
    """Tokens of a pack, where sequences are packed."""
    framework: str | None
    run: str | None
    """The same for all jobs that continue each other; default: OFU_RUN, or WANDB_RUN_ID."""
    model: Mapping[str, object] | None
    """The model that the agent counts FLOPs of: `config`, `seq_len` and so on."""
    flops_per_token: float | None
    tile_overhead: float | None
    tile_overhead_bound: str | None
    """exact, or lower: tiles add at least this share."""


class Reporter:
    """Reports the job's MFU to the agent on this node, from a thread of its own.

    A reporter without a job id, outside of the node's first process, or with unusable settings is disabled: every
    call returns at once, and `disabled` says why.
    """

    def __init__(
        self,
        job_id: str | int | None = None,
        url: str | None = None,
        token: str | None = None,
        every: float = 10.0,
        *surplus: NoReturn,
        enabled: bool | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        """`every` is in seconds. With `enabled` None only the process with local rank 0 reports.

        Never raises: a fact that does not exist is left out, and the log says so once. A type checker refuses it.
        """
        self.disabled = ""
        self._process = os.getpid()
        # Reentrant, for a signal handler that closes or reports while the loop reports.
        self._lock = threading.RLock()
        self._dropped = 0
        self._closed = False
        self._job = self._run = ""
        self._notices = OnceLog()
        self._sender: Sender | None = None
        try:
            self._note_unknown(
                "Reporter", len(surplus), facts.keys() - Facts.__annotations__.keys()
            )
            self._facts = {**identity.run(os.environ), **self._usable(facts)}
            self._facts |= self._model_of_environment()
            self._every = finite_number(every) or 10.0
            self._intervals = Intervals(self._every)
            if identity.speaks_for_node(os.environ) if enabled is None else enabled:
                self._start(str(job_id or "") or identity.job_id(os.environ), url, token)
            else:
                self.disabled = "another process of this node reports"
        except Exception as error:  # noqa: BLE001 - training must start, whatever the settings are
            self._disable(_text(error))

    def _start(self, job: str, url: str | None, token: str | None) -> None:
        if not job:
            self._disable("no job id: give job_id or set OFU_EXPORTER_JOB_ID")
            return
        environ = dict(os.environ)
        self._job, bearer = job, identity.Token(token, environ, job)
        fields = {"job_id": job, **self._facts}
        self._sender = Sender(Channel(url, environ), bearer, fields, self._every, self._notices)
        atexit.register(self.close)

    def _usable(self, facts: Mapping[str, object]) -> dict[str, object]:
        """The given facts that JSON can carry, with numbers of numpy made plain."""
        usable: dict[str, object] = {}
        for name, value in facts.items():
            if value is None or name not in Facts.__annotations__:
                continue
            try:
                usable[name] = json.loads(json.dumps(value, default=_plain, allow_nan=False))
            except Exception as error:  # noqa: BLE001 - whatever was given: the report is worth more than one fact
                self._notices.say(name, f"the fact {name} is left out: {type(error).__name__}")
        return usable

    def _model_of_environment(self) -> dict[str, object]:
        """The model that the environment names, where the program itself names none."""
        if self._facts.keys() & {"flops_per_token", "model"}:
            return {}
        try:
            return identity.model_facts(os.environ)
        except Exception as error:  # noqa: BLE001 - as above: the report is worth more than its model
            self._notices.say("recipe", f"OFU_EXPORTER_RECIPE is left out: {_text(error)}")
        return {}

    def _note_unknown(self, call: str, surplus: int, names: Collection[str]) -> None:
        """Log once which arguments of a call are not known."""
        unknown = [
            *(f"{name}=..." for name in sorted(names)),
            *["a value without a name"] * surplus,
        ]
        if unknown:
            text = f"{call}() has no argument {', '.join(unknown)}: left out"
            self._notices.say(text, text)

    def _disable(self, why: str) -> None:
        self.disabled = why
        with suppress(Exception):  # a handler of the application's own
            log.warning("MFU is not reported: %s", why)

    def report(
        self,
        *surplus: NoReturn,
        mfu: float | None = None,
        model_flops_per_second: float | None = None,
        tflops_per_gpu: float | None = None,
        tokens_per_second: float | None = None,
        step: int | None = None,
        start: float | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Report the value for the time since the call before, or since `start` (Unix seconds): one of the first
        three, or tokens. A `step` alone says how far the job has come.

        `mfu` is a ratio, 0.4 for 40 %; rates are of all GPUs of the job. The first call only starts the clock, unless
        it has a `start`. Never raises; returns within microseconds. An argument that does not exist is left out, and
        the log says so once. A type checker refuses it.
        """
        sender = self._sender
        if sender is None or self._closed or os.getpid() != self._process:
            return
        if surplus or unknown:
            self._note_unknown("report", len(surplus), unknown)
        try:
            rates = (
                ("mfu", mfu),
                ("model_flops_per_second", model_flops_per_second),
                ("tflops_per_gpu", tflops_per_gpu),
                ("tokens_per_second", tokens_per_second),
            )
            self._add_call(sender, rates, step, start)
        except NotUsable as error:
            self._drop(str(error))
        except Exception as error:  # noqa: BLE001 - training must not suffer from what it is given
            # Only the kind of the error: its text comes from the given value, and may raise too.
            self._drop(f"a value cannot be read ({type(error).__name__})")

    def _add_call(
        self, sender: Sender, rates: tuple[tuple[str, object], ...], step: object, start: object
    ) -> None:
        at = time.time()
        values = {name: _read(name, value) for name, value in rates if value is not None}
        self._check(values, step)
        began = None if start is None else _read("start", start)
        call = Call(at, values, _step(step), began)
        if not self._lock.acquire(timeout=LONGEST_LOCK_WAIT):
            raise NotUsable("another thread is reporting")
        try:
            for report in self._intervals.add(call):
                sender.offer(report._replace(run=self._run))
        finally:
            self._lock.release()

    def stage(self, name: str) -> None:
        """Say that steps begin anew by design: those from now on are of another stage, which a later job may continue.

        Never raises.
        """
        sender = self._sender
        if sender is None or self._closed or not self._lock.acquire(timeout=LONGEST_LOCK_WAIT):
            return
        try:
            for report in self._intervals.take_rest():
                sender.offer(report._replace(run=self._run))
            run = f"{self._facts.get('run') or self._job}/{name}"
            self._run = run if len(run) <= identity.LONGEST_RUN and run.isprintable() else self._run
        except Exception as error:  # noqa: BLE001 - as in report()
            self._drop(f"a stage cannot be read ({type(error).__name__})")
        finally:
            self._lock.release()

    def event(self, event: str, start: float, step: int | None = None) -> None:
        """Say what the time from `start` (Unix seconds) until now was spent on: evaluation or checkpoint.

        `step` is the one that was evaluated or saved. Never raises; returns within microseconds.
        """
        sender = self._sender
        if sender is None or self._closed or os.getpid() != self._process:
            return
        try:
            end, began = time.time(), _read("start", start)
            if end > began:
                sender.offer(IntervalReport(began, end, {}, _step(step), str(event), self._run))
        except Exception as error:  # noqa: BLE001 - as in report()
            self._drop(f"an event cannot be read ({type(error).__name__})")

    def _check(self, values: Mapping[str, float], step: object) -> None:
        tokens = "tokens_per_second" in values
        if len(values) - tokens > 1:
            raise NotUsable("say one of mfu, model_flops_per_second and tflops_per_gpu")
        if not values and _step(step) is None:
            raise NotUsable("there is no value")
        if tokens and len(values) == 1 and not self._facts.keys() & {"flops_per_token", "model"}:
            raise NotUsable("tokens_per_second needs the fact flops_per_token or model")

    def _drop(self, why: str) -> None:
        self._dropped += 1
        self._notices.say(why, f"a call of report() is left out: {why}")

    @property
    def last_answer(self) -> dict[str, Any] | None:
        """The agent's answer to the last report that it accepted; None before that."""
        return self._sender.last_answer if self._sender else None

    @property
    def counts(self) -> dict[str, int]:
        """Reports: accepted; refused by the agent; failed, without a usable answer; dropped, never sent, with calls."""
        sender = self._sender
        if sender is None:
            return dict.fromkeys(("accepted", "refused", "failed", "dropped"), 0)
        unsent = self._dropped + self._intervals.dropped + sender.dropped + sender.overflowed
        return {
            "accepted": sender.accepted,
            "refused": sender.refused,
            "failed": sender.failed,
            "dropped": unsent,
        }

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send the rest, for at most `timeout` seconds, and accept no more calls. Never raises."""
        sender = self._sender
        if sender is None or os.getpid() != self._process:
            return
        with suppress(Exception):
            atexit.unregister(self.close)
            for report in self._last_reports():
                sender.offer(report._replace(run=self._run))
            sender.close(timeout)

    def _last_reports(self) -> list[IntervalReport]:
        if self._closed or not self._lock.acquire(timeout=LONGEST_LOCK_WAIT):
            return []
        try:
            self._closed = True
            return self._intervals.take_rest()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(error: Exception) -> str:
    """An error as text. The error may come from a given value, so its text may raise too."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - as above
        return type(error).__name__


def _plain(value: object) -> object:
    """A number of numpy or torch as Python's own of the same kind. Raises what the value raises."""
    item = getattr(value, "item", None)
    return item() if item is not None else float(value)  # type: ignore[arg-type]


def _read(name: str, value: object) -> float:
    try:
        return finite_number(value)
    except NotUsable as error:
        raise NotUsable(f"{name} {error}") from None


def _step(value: object) -> int | None:
    """The step as a plain integer; None if it is not one, because a report does not need the step."""
    if type(value) is int or value is None:
        return value
    try:
        return int(finite_number(value))
    except NotUsable:
        return None
