"""What the dcgm-exporter source promises, shown on a real HTTP server that serves what the test says."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.sources.dcgm_exporter import driver as dcgm
from ofu_exporter.sources.dcgm_exporter.driver import PagePace
from ofu_exporter.sources.dcgm_exporter.page import ExporterPage, Places, parse
from ofu_exporter.values.reading import Activity, ClockSample, Fault, Reading
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView
from tests.helpers.quiet_server import QuietHandler, StoppedServer
from tests.helpers.values import H100, FakeClock, health

PAGES = Path(__file__).parents[2] / "pages"
SAMPLES = Path(__file__).resolve().parents[4] / "shared/samples/dcgm-exporter"
COLLECT = 30.0

TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
TENSOR_49 = "DCGM_FI_PROF_TENSOR_UTIL_RATIO"
CLOCK = "DCGM_FI_DEV_SM_CLOCK"
CLOCK_49 = "DCGM_FI_DEV_SM_CLOCK_HERTZ"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
BLANK_FP64 = "140737488355328.000000"
BLANK_INT64 = "9223372036854775794"
BLANK_INT32 = "2147483632"

Event = Reading | Fault
Answer = Callable[[QuietHandler, threading.Event], None]


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the machine the tests run on comes between."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# The other exporter: pages, and the server they come from.


def line(name: str, value: object, index: int = 0, **labels: str) -> str:
    """One row of one GPU."""
    own = {
        "gpu": str(index),
        "UUID": f"GPU-{index:04d}",
        "device": f"nvidia{index}",
        "modelName": H100,
        "Hostname": "node-1",
        **labels,
    }
    inside = ",".join(f'{label}="{text}"' for label, text in own.items())
    return f"{name}{{{inside}}} {value}\n"


def gpu_page(
    tensor: object = 0.5, clock: object = 1400, energy: object = 1000, index: int = 0, **labels: str
) -> str:
    """The rows of one GPU; None leaves a row out."""
    rows = {TENSOR: tensor, CLOCK: clock, ENERGY: energy}
    return "".join(
        line(name, value, index, **labels) for name, value in rows.items() if value is not None
    )


class Exporter:
    """An HTTP server with keep-alive, as dcgm-exporter is; what it answers is set by the test."""

    def __init__(self) -> None:
        self.page: str | bytes = ""
        self.status = 200
        self.headers: Mapping[str, str] = {"Content-Type": "text/plain; version=0.0.4"}
        self.answer: Answer | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/metrics"

    def start(self) -> None:
        exporter = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                if exporter.answer is not None:
                    exporter.answer(self, exporter._server.stopped)
                else:
                    exporter.send(self)

        self._server = StoppedServer(Handler, self._port)
        self._port = self._server.server_port
        self.stop = self._server.stop

    def send(self, handler: QuietHandler) -> None:
        body = self.page if isinstance(self.page, bytes) else self.page.encode()
        handler.reply(body, self.status, self.headers)


class Bench:
    """The other exporter, the clock of this one, and the source between them."""

    def __init__(self, clock: Callable[[], float] | None = None, **options: object) -> None:
        self.exporter = Exporter()
        self.clock = FakeClock()
        given = dcgm.Options.model_validate(
            {"url": self.exporter.url, "collect_interval": COLLECT, **options}
        )
        self.source = dcgm.Source(given, clock or self.clock)
        self._probe: dcgm.Probe | None = None

    @property
    def probe(self) -> dcgm.Probe:
        if self._probe is None:
            (self._probe,) = self.source.open()
        return self._probe

    def read(self, page: str | bytes | None = None, after: float = 0.0) -> Sequence[Event]:
        """Serve a page, let time pass, and read it."""
        self.clock.now += after
        if page is not None:
            self.exporter.page = page
        return self.probe.read()

    def reading(self, page: str | None = None, after: float = 0.0) -> Reading:
        (event,) = self.read(page, after)
        assert isinstance(event, Reading), event
        return event

    def reason(self, page: str | None = None, after: float = 0.0) -> Reason | None:
        (event,) = self.read(page, after)
        return reason(event)

    def failure(self, page: str | bytes | None = None) -> GpuError:
        with pytest.raises(GpuError) as caught:
            self.read(page)
        return caught.value

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.source.close()
        self.exporter.stop()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as bench:
        yield bench


def readings(events: Sequence[Event]) -> list[Reading]:
    return [event for event in events if isinstance(event, Reading)]


def reason(event: Event) -> Reason | None:
    """Why a GPU is not measured: its fault, or the value that its reading says is not there."""
    if isinstance(event, Fault):
        return event.reason
    if event.tensor_active is None:
        return Reason.NO_TENSOR_COUNTER
    return None if event.clocks else Reason.NO_CLOCK


def tally(events: Sequence[Event]) -> tuple[int, dict[Reason, int]]:
    """How many GPUs are measured, and how many are not for each reason."""
    assert len({event.gpu.key for event in events}) == len(events), "a GPU counts twice"
    reasons = [reason(event) for event in events]
    return reasons.count(None), dict(Counter(why for why in reasons if why is not None))


# What a page says.


@pytest.mark.parametrize(
    ("tensor", "clock", "value"),
    [
        (TENSOR, CLOCK, "1400"),
        (TENSOR.lower(), CLOCK.lower(), "1400"),
        (TENSOR_49, CLOCK_49, "1.4e+09"),
        (TENSOR_49.lower(), CLOCK_49.lower(), "1400000000.000000"),
        (TENSOR, CLOCK_49, "1400000000"),
        (TENSOR_49, CLOCK, "1400"),
    ],
)
def test_old_and_new_names_and_units_say_the_same(
    bench: Bench, tensor: str, clock: str, value: str
) -> None:
    reading = bench.reading(line(tensor, "0.512345") + line(clock, value))
    assert reading.tensor_active == pytest.approx(0.512345)
    assert [sample.hz for sample in reading.clocks] == [pytest.approx(1.4e9)]


@pytest.mark.parametrize("uuid", ["UUID", "uuid"])
@pytest.mark.parametrize("host", ["Hostname", "hostname"])
def test_labels_of_every_version_are_read(bench: Bench, uuid: str, host: str) -> None:
    labels = f'gpu="3",{uuid}="GPU-x",pci_bus_id="0:1",modelName="M",{host}="node"'
    page = f"{TENSOR}{{{labels}}} 0.5\n{CLOCK}{{{labels}}} 1400\n"
    gpu = bench.reading(page).gpu
    assert (gpu.index, gpu.uuid, gpu.pci_bus_id, gpu.name) == ("3", "GPU-x", "0:1", "M")


@pytest.mark.parametrize("label", ["DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"])
def test_the_driver_is_read_from_either_label(bench: Bench, label: str) -> None:
    page = gpu_page().replace("Hostname=", f'{label}="590.1",Hostname=')
    assert bench.reading(page).gpu.driver == "590.1"


@pytest.mark.parametrize(
    ("name", "pipe"),
    [
        ("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "hmma"),
        ("DCGM_FI_PROF_HMMA_UTIL_RATIO", "hmma"),
        ("DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "imma"),
        ("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "dfma"),
    ],
)
def test_pipes_are_read_where_the_page_has_them(bench: Bench, name: str, pipe: str) -> None:
    assert bench.reading(gpu_page() + line(name, 0.25)).pipes == {pipe: 0.25}


@pytest.mark.parametrize(
    ("name", "value"),
    [("DCGM_FI_DEV_MAX_SM_CLOCK", "1980"), ("DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ", "1.98e+09")],
)
def test_the_highest_clock_is_the_gpus(bench: Bench, name: str, value: str) -> None:
    assert bench.reading(gpu_page() + line(name, value)).gpu.max_sm_clock_hz == 1.98e9


@pytest.mark.parametrize("value", ["NaN", "0", "-1", "+Inf", BLANK_INT32])
def test_a_highest_clock_that_cannot_be_is_none(bench: Bench, value: str) -> None:
    page = gpu_page() + line("DCGM_FI_DEV_MAX_SM_CLOCK", value)
    assert bench.reading(page).gpu.max_sm_clock_hz is None


def test_each_mig_instance_is_a_gpu_with_its_profile(bench: Bench) -> None:
    page = gpu_page(0.6, GPU_I_ID="1", GPU_I_PROFILE="3g.40gb")
    page += gpu_page(0.1, GPU_I_ID="2", GPU_I_PROFILE="4g.40gb")
    found = {(r.gpu.instance, r.gpu.profile): r.tensor_active for r in readings(bench.read(page))}
    assert found == {("1", "3g.40gb"): 0.6, ("2", "4g.40gb"): 0.1}


def test_a_divided_gpu_without_counters_of_its_own_is_not_reported(bench: Bench) -> None:
    page = gpu_page(tensor=None) + gpu_page(0.6, GPU_I_ID="1", GPU_I_PROFILE="3g.40gb")
    assert bench.reading(page).gpu.instance == "1"


def test_a_total_over_the_instances_is_no_gpu_beside_them(bench: Bench) -> None:
    page = gpu_page(0.3) + gpu_page(0.6, GPU_I_ID="1", GPU_I_PROFILE="3g.40gb")
    assert bench.reading(page).gpu.instance == "1"


def test_a_divided_gpu_does_not_hide_an_instance_without_counters(bench: Bench) -> None:
    page = gpu_page(tensor=None) + gpu_page(tensor=None, GPU_I_ID="1")
    assert bench.reason(page) is Reason.NO_TENSOR_COUNTER


@pytest.mark.parametrize("value", [BLANK_FP64, "140737488355331", BLANK_INT64, "1e300", "+Inf"])
def test_a_blank_activity_is_a_reason_not_a_value(bench: Bench, value: str) -> None:
    assert bench.reason(gpu_page(tensor=value)) is Reason.BLANK


@pytest.mark.parametrize("value", [BLANK_INT32, "2147483635", BLANK_INT64, BLANK_FP64])
def test_a_blank_clock_is_a_reason_not_a_value(bench: Bench, value: str) -> None:
    assert bench.reason(gpu_page(clock=value)) is Reason.BLANK


@pytest.mark.parametrize("value", [BLANK_INT64, BLANK_FP64])
def test_a_blank_clock_in_hertz_too(bench: Bench, value: str) -> None:
    assert bench.reason(line(TENSOR_49, 0.5) + line(CLOCK_49, value)) is Reason.BLANK


def test_a_page_without_the_profiling_family_says_so(bench: Bench) -> None:
    assert bench.reason(gpu_page(tensor=None)) is Reason.NO_TENSOR_COUNTER


def test_a_page_without_the_clock_says_so(bench: Bench) -> None:
    assert bench.reason(gpu_page(clock=None)) is Reason.NO_CLOCK


@pytest.mark.parametrize("name", [CLOCK, "DCGM_FI_DEV_MAX_SM_CLOCK"])
def test_another_counters_blank_does_not_hide_a_missing_one(bench: Bench, name: str) -> None:
    """What to do about a counter that is not enabled is not what to do about a blank."""
    page = gpu_page(tensor=None, clock=None) + line(name, BLANK_INT32)
    assert bench.reason(page) is Reason.NO_TENSOR_COUNTER


def test_not_a_number_is_passed_on_to_be_rejected(bench: Bench) -> None:
    reading = bench.reading(gpu_page(tensor="NaN", clock="NaN"))
    assert reading.tensor_active is not None
    assert math.isnan(reading.tensor_active)
    assert math.isnan(reading.clocks[0].hz)


@pytest.mark.parametrize("value", ["-0.5", "-1e300", "7.5", "808334905"])
def test_the_impossible_is_passed_on_to_be_rejected(bench: Bench, value: str) -> None:
    assert bench.reading(gpu_page(tensor=value)).tensor_active == float(value)


@pytest.mark.parametrize("name", [TENSOR, CLOCK, "DCGM_FI_DEV_MAX_SM_CLOCK"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_too_large_for_a_float_costs_its_own_gpu_only(
    bench: Bench, name: str, sign: str
) -> None:
    """The parser hands out integers of any length."""
    huge = line(name, sign + "9" * 400, index=1)
    sane = [r for r in readings(bench.read(huge + gpu_page())) if r.gpu.index == "0"]
    assert len(sane) == 1
    assert not any(type(r.tensor_active) is int for r in readings(bench.read(after=COLLECT)))


def test_rows_cloned_per_pod_or_job_count_once(bench: Bench) -> None:
    clones = [gpu_page(hpc_job=job, pod=pod) for job, pod in [("1", "a"), ("2", "a"), ("2", "b")]]
    reading = bench.reading("".join(clones))
    assert (reading.tensor_active, len(reading.clocks)) == (0.5, 1)


def test_time_sliced_rows_count_once(bench: Bench) -> None:
    assert bench.reading(gpu_page(vgpu="0") + gpu_page(vgpu="1")).tensor_active == 0.5


def test_rows_of_links_switches_and_processors_are_no_gpus(bench: Bench) -> None:
    page = 'DCGM_FI_DEV_NVLINK_COUNT{nvlink="1",gpu="0",gpu_uuid="GPU-x"} 1\n'
    page += 'DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0",Hostname="node-1"} 0.5\n'
    page += 'go_goroutines 5\nnvidia_gpu_jobId{uuid="GPU-y"} 7\n'
    assert bench.reading(page + gpu_page()).gpu.uuid == "GPU-0000"


def test_a_gpu_with_none_of_the_counters_is_still_reported(bench: Bench) -> None:
    events = bench.read(gpu_page() + line("DCGM_FI_DEV_GPU_TEMP", 29, index=1))
    assert tally(events) == (1, {Reason.NO_TENSOR_COUNTER: 1})


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0c"])
def test_only_a_newline_ends_a_row(bench: Bench, separator: str) -> None:
    assert bench.reading(gpu_page(pod=f"a{separator}b")).tensor_active == 0.5


@pytest.mark.parametrize("text", ['a\\"b', "a\\\\", "a\\nb", "{x}", "a,b=c", "λ"])
def test_any_text_in_a_label_is_only_text(bench: Bench, text: str) -> None:
    assert bench.reading(gpu_page(pod=text)).tensor_active == 0.5


@pytest.mark.parametrize("label", ['UUID="a\\\\b"', 'uuid="a",UUID="b"', 'UUID="",uuid="b"'])
def test_an_odd_uuid_costs_no_other_gpu_its_reading(bench: Bench, label: str) -> None:
    odd = gpu_page(index=1).replace('UUID="GPU-0001"', label)
    assert "GPU-0000" in {event.gpu.uuid for event in bench.read(odd + gpu_page())}


# What cannot be read.


def test_a_row_of_megabytes_is_counted_and_costs_its_own_gpu_only(bench: Bench) -> None:
    huge = gpu_page(index=1, clock=None, energy=None, pod="x" * 5_000_000)
    assert bench.reading(huge + gpu_page()).gpu.index == "0"
    assert bench.source.rejected == {"line_too_long": 1}


@pytest.mark.parametrize("end", ["} ", "} 0.5.5", '",} x', "", '=""} 1', "} 0x1"])
def test_a_row_that_cannot_be_parsed_is_counted_and_costs_itself_only(
    bench: Bench, end: str
) -> None:
    broken = line(TENSOR, "", index=1).rstrip()[:-1] + end + "\n"
    assert bench.reading(broken + gpu_page()).gpu.index == "0"
    assert bench.source.rejected == {"unreadable_line": 1}


def test_a_label_too_long_to_show_is_counted(bench: Bench) -> None:
    assert bench.reading(gpu_page(index=1, pod="x" * 300) + gpu_page()).gpu.index == "0"
    assert bench.source.rejected == {"unreadable_line": 3}


def test_bytes_that_are_no_text_cost_nothing_else(bench: Bench) -> None:
    (event,) = bench.read(b"# \xff\xfe\n\x00\x80\n" + gpu_page().encode())
    assert isinstance(event, Reading)


@given(page=st.text(alphabet=st.sampled_from('DCGM_{}",=\\\n 0.5x#UIgpu'), max_size=200))
def test_no_page_breaks_the_parser(page: str) -> None:
    known = parse(page + "\n" + gpu_page(index=1234), Places(128)).rows
    assert [row.tensor_active for row in known if row.gpu.index == "1234"] == [0.5]


@pytest.mark.parametrize("kind", ["text/html", "text/html; charset=utf-8", "application/xhtml"])
def test_html_by_its_type_is_not_metrics(bench: Bench, kind: str) -> None:
    bench.read(gpu_page())
    bench.exporter.headers = {"Content-Type": kind}
    assert bench.failure("Please log in").reason is Reason.NOT_METRICS


@pytest.mark.parametrize("body", ["<html>", "\n  <!DOCTYPE html><p>Log in", "<?xml version='1'?>"])
def test_html_by_its_body_is_not_metrics(bench: Bench, body: str) -> None:
    bench.read(gpu_page())
    assert bench.failure(body).reason is Reason.NOT_METRICS


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_an_error_status_is_unreachable_and_named(bench: Bench, status: int) -> None:
    bench.read(gpu_page())
    bench.exporter.status = status
    error = bench.failure()
    assert error.reason is Reason.UNREACHABLE
    assert str(status) in error.detail


def test_a_redirect_is_named_not_followed(bench: Bench) -> None:
    def redirect(handler: QuietHandler, stopped: threading.Event) -> None:
        handler.reply(status=302, headers={"Location": "/other"})

    bench.read(gpu_page())
    bench.exporter.answer = redirect
    failure = bench.failure()
    assert failure.reason is Reason.UNREACHABLE
    assert "answers 302" in failure.detail


@pytest.mark.parametrize("page", ["", "# nothing\n", "up 1\n", '{"status": "ok"}'])
def test_a_page_without_gpus_says_so(bench: Bench, page: str) -> None:
    bench.read(gpu_page())
    error = bench.failure(page)
    assert error.reason is Reason.NO_GPU
    assert bench.exporter.url in error.detail


def test_a_page_over_the_limit_is_not_read_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.read(gpu_page())
    monkeypatch.setattr(dcgm, "MAX_PAGE_BYTES", 1000)
    assert bench.failure(gpu_page() + "#" * 1000).reason is Reason.NOT_METRICS


def test_nobody_listening_is_said_when_opened() -> None:
    bench = Bench()
    bench.close()
    with pytest.raises(SourceError) as caught:
        bench.source.open()
    assert caught.value.reason is Reason.UNREACHABLE
    assert bench.exporter.url in str(caught.value)


@pytest.mark.parametrize(
    ("page", "reason"), [("<html>", Reason.NOT_METRICS), ("up 1\n", Reason.NO_GPU)]
)
def test_what_is_wrong_with_the_page_is_said_when_opened(
    bench: Bench, page: str, reason: Reason
) -> None:
    bench.exporter.page = page
    with pytest.raises(SourceError) as caught:
        bench.source.open()
    assert caught.value.reason is reason


def test_a_server_that_does_not_answer_is_unreachable() -> None:
    def silent(handler: QuietHandler, stopped: threading.Event) -> None:
        stopped.wait(5)

    with Bench(timeout=1.0) as bench:
        bench.read(gpu_page())
        bench.exporter.answer = silent
        assert bench.failure().reason is Reason.UNREACHABLE


def dripping(start: bytes) -> Answer:
    """Answers `start` and then a byte every 10 ms, for two seconds."""

    def drip(handler: QuietHandler, stopped: threading.Event) -> None:
        handler.close_connection = True
        handler.wfile.write(start)
        for _ in range(200):
            if stopped.wait(0.01):
                return
            handler.wfile.write(b"x")

    return drip


def test_a_server_that_drips_its_page_is_an_error_not_a_hang() -> None:
    """One that drips its headers is seen by the sampler: the lane is hung, nothing else is."""
    with Bench(clock=time.monotonic, timeout=0.1) as bench:
        bench.read(gpu_page())
        bench.exporter.answer = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        assert bench.failure().reason is Reason.UNREACHABLE


def test_a_page_cut_short_is_unreachable(bench: Bench) -> None:
    def cut(handler: QuietHandler, stopped: threading.Event) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        handler.wfile.write(gpu_page().encode())

    bench.read(gpu_page())
    bench.exporter.answer = cut
    assert bench.failure().reason is Reason.UNREACHABLE


def test_an_exporter_that_goes_away_and_comes_back_is_read_again(bench: Bench) -> None:
    first = bench.reading(gpu_page(0.1))
    bench.exporter.stop()
    assert bench.failure().reason is Reason.UNREACHABLE
    bench.exporter.start()
    second = bench.reading(gpu_page(0.2), after=100.0)
    assert second.start >= first.end
    assert second.end - second.start == COLLECT


def test_its_gpus_are_still_named_while_it_is_away(bench: Bench) -> None:
    bench.read(gpu_page())
    bench.exporter.status = 500
    bench.failure()
    assert [gpu.index for gpu in bench.probe.gpus()] == ["0"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ALL_PROXY", "socks5://127.0.0.1:1"), ("SSL_CERT_FILE", "/nonexistent/ca.pem")],
)
def test_the_environment_of_other_programs_does_not_break_opening(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Whatever is wrong is said as every other reason is: with a SourceError, if with any."""
    monkeypatch.setenv(variable, value)
    bench.exporter.page = gpu_page()
    with contextlib.suppress(SourceError):
        bench.source.open()


# When a value is new, and what time it stands for.


def test_the_first_value_is_shown_and_does_not_count(bench: Bench) -> None:
    """It is of the time before: another agent may have counted that."""
    reading = bench.reading(gpu_page())
    assert (reading.start, reading.end) == (bench.clock.now - COLLECT, bench.clock.now)
    assert reading.clocks == (ClockSample(bench.clock.now, 1.4e9),)
    assert not reading.counts


def test_a_value_seen_again_is_not_a_new_reading(bench: Bench) -> None:
    bench.read(gpu_page(energy=1))
    assert [bench.read(gpu_page(energy=i), after=5.0) for i in range(2, 7)] == [[]] * 5


def test_a_value_that_stays_is_a_new_reading_when_a_collection_is_over_for_sure(
    bench: Bench,
) -> None:
    first = bench.reading(gpu_page(energy=1))
    assert [bench.read(gpu_page(energy=i), after=8.0) for i in range(2, 7)] == [[]] * 5
    second = bench.reading(gpu_page(energy=7), after=5.0)
    assert (second.start, second.end) == (first.end, first.end + COLLECT)
    assert second.counts


@pytest.mark.parametrize(
    "changed",
    [gpu_page(0.6), gpu_page(clock=1500), gpu_page() + line("DCGM_FI_PROF_HMMA_UTIL_RATIO", 0.1)],
)
def test_a_changed_value_stands_for_the_time_since_the_last(bench: Bench, changed: str) -> None:
    first = bench.reading(gpu_page())
    bench.read(after=6.9)
    second = bench.reading(changed, after=0.2)
    assert second.start == first.end
    assert second.end == pytest.approx(first.end + 7.0)


@pytest.mark.parametrize(
    "names",
    [
        (
            "PIPE_TENSOR_ACTIVE",
            "GR_ENGINE_ACTIVE",
            "SM_ACTIVE",
            "DRAM_ACTIVE",
            "PIPE_FP32_ACTIVE",
            "PIPE_INT_ACTIVE",
        ),
        (
            "TENSOR_UTIL_RATIO",
            "GR_ENGINE_UTIL_RATIO",
            "SM_UTIL_RATIO",
            "DRAM_UTIL_RATIO",
            "FP32_UTIL_RATIO",
            "INT_UTIL_RATIO",
        ),
    ],
    ids=["old names", "new names"],
)
def test_a_page_tells_what_else_the_gpu_did_by_old_and_new_names(
    bench: Bench, names: tuple[str, ...]
) -> None:
    values = (0.3, 0.8, 0.6, 0.5, 0.1, 0.2)
    rows = {**dict(zip(names, values, strict=True)), "PCIE_TX_BYTES": 2e9, "NVLINK_RX_BYTES": 5e9}
    page = "".join(line(f"DCGM_FI_PROF_{name}", value) for name, value in rows.items())
    found = bench.reading(page + line(CLOCK, 1400)).activity
    assert found == Activity(
        engine=0.8, sm=0.6, dram=0.5, fp32=0.1, integer=0.2, pcie_sent=2e9, nvlink_received=5e9
    )


@pytest.mark.parametrize(
    ("name", "unit"), [(ENERGY, 1000), ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1)]
)
def test_the_energy_of_a_window_is_what_the_counter_rose_by_since_the_last(
    bench: Bench, name: str, unit: int
) -> None:
    def page(tensor: float, joules: int) -> str:
        return gpu_page(tensor, energy=None) + line(name, joules * unit)

    bench.reading(page(0.1, 1000))
    first = bench.reading(page(0.2, 4000), after=30.0)
    second = bench.reading(page(0.3, 4500), after=30.0)
    assert (first.activity.energy_joules, second.activity.energy_joules) == (3000.0, 500.0)


def test_energy_of_time_that_no_window_covers_is_no_windows(bench: Bench) -> None:
    bench.reading(gpu_page(0.1, energy=1_000_000))
    after_pause = bench.reading(gpu_page(0.2, energy=90_000_000), after=300.0)
    assert after_pause.activity.energy_joules is None


def test_a_value_after_a_long_pause_stands_for_one_collection(bench: Bench) -> None:
    first = bench.reading(gpu_page(0.1))
    second = bench.reading(gpu_page(0.2), after=300.0)
    assert second.end - second.start == pytest.approx(COLLECT)
    assert first.end + 270.0 <= second.end <= first.end + 300.0


def test_each_gpu_has_its_own_pace(bench: Bench) -> None:
    bench.read(gpu_page(0.1) + gpu_page(0.1, index=1))
    (event,) = bench.read(gpu_page(0.1) + gpu_page(0.2, index=1), after=5.0)
    assert event.gpu.index == "1"


Step = tuple[float, float, int]
"""Seconds to wait, and the activity and energy that are served then."""


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.floats(0.01, 100.0), st.sampled_from([0.1, 0.2, math.nan]), st.integers(0, 3)),
        max_size=15,
    ),
    collect=st.floats(1.0, 30.0),
)
def test_windows_never_overlap_nor_exceed_two_collections(
    steps: list[Step], collect: float
) -> None:
    with Bench(collect_interval=collect) as bench:
        taken = [bench.reading(gpu_page(0.1))]
        for seconds, tensor, energy in steps:
            taken += readings(bench.read(gpu_page(tensor, energy=energy), after=seconds))
    assert all(0 < one.end - one.start <= 2 * collect + 1e-9 for one in taken)
    assert all(before.end <= after.start for before, after in itertools.pairwise(taken))
    assert [one.counts for one in taken] == [False] + [True] * (len(taken) - 1)


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(gpu_page(tensor=BLANK_FP64), id="blank"),
        pytest.param(gpu_page(tensor=None), id="no tensor"),
        pytest.param(gpu_page(index=1), id="gone"),
    ],
)
def test_windows_do_not_overlap_across_a_gap(bench: Bench, between: str) -> None:
    first = bench.reading(gpu_page(0.1))
    bench.read(between, after=5.0)
    second = readings(bench.read(gpu_page(0.2), after=5.0))
    assert all(one.start >= first.end for one in second)


@pytest.mark.parametrize("gap", ["blank", "error", "empty page", "gone"])
def test_the_first_page_after_a_gap_is_news_whatever_it_says(bench: Bench, gap: str) -> None:
    """The GPU was down in between: it must not wait for a collection to come back."""
    first = bench.reading(gpu_page())
    pages = {"blank": gpu_page(tensor=BLANK_FP64), "empty page": "", "gone": gpu_page(index=1)}
    bench.exporter.status = 500 if gap == "error" else 200
    with contextlib.suppress(GpuError):
        bench.read(pages.get(gap), after=5.0)
    bench.exporter.status = 200
    back = bench.reading(gpu_page(), after=5.0)
    assert back.start == first.end
    assert first.end < back.end <= first.end + 10.0


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(gpu_page(0.2, DCGM_FI_DRIVER_VERSION="590.1"), id="driver"),
        pytest.param(gpu_page(0.2) + line("DCGM_FI_DEV_MAX_SM_CLOCK", 1980), id="max clock"),
    ],
)
def test_windows_do_not_overlap_when_a_label_changes(bench: Bench, changed: str) -> None:
    """A row that says more of the same GPU is not another GPU."""
    first = bench.reading(gpu_page(0.1))
    assert all(one.start >= first.end for one in readings(bench.read(changed, after=5.0)))


def test_a_steady_value_polled_off_the_beat_leaves_no_time_out(bench: Bench) -> None:
    """An idle GPU's seconds count as much as a busy one's, whose value changes every collection."""
    taken = [bench.reading(gpu_page(0.0, energy=0))]
    for i in range(1, 50):
        taken += readings(bench.read(gpu_page(0.0, energy=i), after=7.0))
    covered = sum(one.end - one.start for one in taken)
    assert covered == pytest.approx(taken[-1].end - taken[0].start)


def test_a_steady_gpu_that_one_page_left_out_does_not_begin_anew(bench: Bench) -> None:
    bench.read(gpu_page(energy=1))
    for i in range(2, 10):
        assert bench.read(gpu_page(energy=i), after=5.0) == []
    bench.read(gpu_page(index=1), after=2.0)
    back = bench.reading(gpu_page(0.2, energy=10), after=2.0)
    assert back.counts
    assert back.end - back.start == pytest.approx(COLLECT)


# Pages between two windows.


class Steady:
    """An exporter that collects every second, and a lane that polls it every half second and reads it every five."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.tensor = [0.0]
        self.windows: list[Reading] = []
        self.started = bench.clock.now

    def run(self, seconds: float, poll: float = 0.5) -> None:
        for _ in range(round(seconds / poll)):
            self.step(poll)

    def step(self, poll: float = 0.5) -> None:
        now = self.bench.clock.now - self.started
        collected = int(now - 0.3)
        value = self.tensor[collected % len(self.tensor)]
        self.bench.exporter.page = gpu_page(value, energy=collected)
        if abs(now % 5.0) < 1e-6:
            self.windows += readings(self.bench.probe.read())
        else:
            self.bench.probe.poll()
        self.bench.clock.now += poll

    @property
    def observed(self) -> float:
        return sum(each.end - each.start for each in self.windows if each.counts)

    @property
    def mean(self) -> float:
        parts = [(each.tensor_active or 0.0, each.end - each.start) for each in self.windows[1:]]
        return sum(tensor * seconds for tensor, seconds in parts) / self.observed


@pytest.fixture
def steady() -> Iterator[Steady]:
    with Bench(collect_interval=1.0) as bench:
        yield Steady(bench)


def test_a_page_that_changes_every_second_is_seen_every_second(steady: Steady) -> None:
    steady.tensor = [0.1, 0.5, 0.9, 0.3, 0.7]
    steady.run(100.0)
    assert steady.observed == pytest.approx(95.0, abs=1.0)
    assert steady.mean == pytest.approx(0.5, abs=0.01)
    assert steady.bench.source.rejected == {}


@pytest.mark.slow
def test_values_that_stay_for_a_while_are_counted_for_as_long_as_they_stay(steady: Steady) -> None:
    steady.tensor = [0.2] * 3 + [0.8] + [0.2] * 2 + [0.8]
    steady.run(210.0)
    assert steady.observed == pytest.approx(205.0, abs=1.5)
    assert steady.mean == pytest.approx((5 * 0.2 + 2 * 0.8) / 7, abs=0.01)


def test_one_page_that_fails_between_others_costs_no_second(steady: Steady) -> None:
    steady.tensor = [0.1, 0.5, 0.9]
    steady.run(50.0)
    for _ in range(5):  # of the page that ends a window too
        steady.bench.exporter.status = 500
        steady.step()
        steady.bench.exporter.status = 200
        steady.run(9.5)
    assert steady.observed == pytest.approx(95.0, abs=2.0)
    assert steady.bench.source.rejected["page_failed"] == 5


def test_a_page_that_fails_for_a_whole_window_is_unreachable(steady: Steady) -> None:
    steady.run(5.5)
    steady.bench.exporter.status = 500
    with pytest.raises(GpuError):
        steady.run(10.0)


def test_collections_that_the_settings_cannot_see_are_counted_and_said(
    steady: Steady, caplog: pytest.LogCaptureFixture
) -> None:
    """--clock-interval 5s: no page between two windows."""
    steady.tensor = [0.1, 0.5, 0.9]
    steady.run(100.0, poll=5.0)
    assert steady.bench.source.rejected["unseen_collection"] == 19 * 4
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert "--clock-interval" in said
    assert steady.observed <= 19.0 + 1.0


def test_values_that_change_faster_than_was_said_are_counted_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Bench(collect_interval=30.0) as bench:
        steady = Steady(bench)
        steady.tensor = [k / 100 for k in range(100)]
        steady.run(100.0)
        assert bench.source.rejected["early_change"] > 10
        assert steady.observed == pytest.approx(95.0, abs=5.0)
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert "--collect-interval" in said


def test_a_second_agent_counts_nothing_that_the_first_has_counted(steady: Steady) -> None:
    steady.tensor = [0.1, 0.5, 0.9]
    steady.run(50.0)
    steady.bench.probe.close()
    (probe,) = steady.bench.source.open()
    began = steady.bench.clock.now
    steady.bench._probe = probe
    before = len(steady.windows)
    steady.run(50.0)
    second = [each for each in steady.windows[before:] if each.counts]
    assert min(each.start for each in second) == began


# What is not believed.


def shown(*pages: str) -> GpuView:
    """What is known of a GPU after these pages, a collection apart."""
    state = State()
    with Bench() as bench:
        for page in pages:
            for events in (bench.read(page, after=COLLECT / 2), bench.read(after=COLLECT / 2)):
                tick = Tick(bench.clock.now, 5.0, bench.probe.gpus(), events, health())
                state, snapshot = step(state, tick)
    (view,) = snapshot.gpus
    return view


@pytest.mark.parametrize(
    "row",
    [
        line(CLOCK, 808334905),
        line(CLOCK, 1400e6),
        line(CLOCK_49, 1400),
        line(CLOCK_49, 9e12),
        line(CLOCK, 0.0014),
    ],
)
def test_a_clock_that_cannot_be_in_its_unit_is_refused(row: str) -> None:
    rated = line("DCGM_FI_DEV_MAX_SM_CLOCK", 1980)
    view = shown(*(gpu_page(k / 10, clock=None) + rated + row for k in range(3)))
    assert view.window is None or view.window.utilization is None
    assert view.observed_seconds == 0.0
    assert view.reason is Reason.IMPOSSIBLE
    assert view.rejected[Rejection.CLOCK_OUT_OF_RANGE.value] >= 2


@pytest.mark.parametrize("value", [808334905, 1980e6, 0.001])
def test_a_highest_clock_that_cannot_be_in_its_unit_lets_no_clock_pass(value: float) -> None:
    page = gpu_page(clock=808334905) + line("DCGM_FI_DEV_MAX_SM_CLOCK", value)
    assert shown(page).reason is Reason.IMPOSSIBLE


UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def dead_page(util: float = 100, watts: float = 650.1, engine: object = 0.0, n: int = 0) -> str:
    """Every profiling counter 0 while the driver's own say that the GPU works."""
    page = gpu_page(0.0, energy=n) + line(UTIL, util) + line(POWER, watts)
    return page + (line(ENGINE, engine) if engine is not None else "")


def test_zeros_of_a_gpu_that_works_are_implausible_never_zero() -> None:
    view = shown(*(dead_page(n=k) for k in range(5)))
    assert view.reason is Reason.IMPLAUSIBLE
    assert (view.window, view.observed_seconds) == (None, 0.0)
    assert view.rejected[Rejection.ZERO_WHILE_BUSY.value] >= 4


def test_zeros_of_a_gpu_that_works_by_the_new_names_are_implausible_too() -> None:
    names = {UTIL: "DCGM_FI_DEV_GPU_UTIL_RATIO", POWER: "DCGM_FI_DEV_BOARD_POWER_WATTS"}
    names |= {ENGINE: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"}
    page = dead_page(util=0.99)
    for old, new in names.items():
        page = page.replace(old, new)
    assert shown(page).reason is Reason.IMPLAUSIBLE


def test_the_limit_says_how_much_power_is_much() -> None:
    small = line("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 72)
    assert shown(dead_page(watts=60) + small).reason is Reason.IMPLAUSIBLE
    assert shown(dead_page(watts=60)).reason is None


@pytest.mark.parametrize(
    "page",
    [
        dead_page(util=0, watts=90),
        dead_page(util=100, watts=90),  # an idle GPU whose utilization hangs
        dead_page(util=0, watts=650),
        dead_page(util=808334905),
        dead_page(watts=808334905),
        dead_page(engine=0.98),  # work that leaves the tensor pipes alone
        dead_page(engine=None),
    ],
)
def test_zero_is_a_fact_where_not_all_that_is_known_contradicts_it(page: str) -> None:
    view = shown(page, page, page)
    assert view.reason is None
    assert view.window is not None
    assert view.window.utilization == 0.0


def test_power_of_the_whole_gpu_says_nothing_of_an_instance(bench: Bench) -> None:
    page = dead_page().replace('",device=', '",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb",device=')
    assert bench.reading(page).evidence is None


def test_a_frozen_page_is_not_believed_after_the_limit() -> None:
    with Bench(unchanged_limit=100.0) as bench:
        bench.read(gpu_page())
        assert len([each for _ in range(6) for each in bench.read(after=COLLECT / 2)]) == 2
        assert bench.reason(after=COLLECT) is Reason.UNCHANGED
        assert bench.reason(after=COLLECT) is Reason.UNCHANGED


def test_energy_that_moves_keeps_a_steady_gpu_alive() -> None:
    with Bench(unchanged_limit=100.0) as bench:
        bench.read(gpu_page(0.0, energy=0))
        bench.read(after=COLLECT / 2)
        for i in range(1, 10):
            assert bench.reading(gpu_page(0.0, energy=i), after=COLLECT).tensor_active == 0.0


def test_a_page_that_thaws_is_believed_again() -> None:
    with Bench(unchanged_limit=100.0) as bench:
        bench.read(gpu_page())
        assert bench.reason(after=200.0) is Reason.UNCHANGED
        reading = bench.reading(gpu_page(energy=2), after=1.0)
        assert reading.end - reading.start == pytest.approx(COLLECT)


def test_one_gpu_that_froze_does_not_cost_the_other() -> None:
    with Bench(unchanged_limit=100.0) as bench:
        bench.read(gpu_page() + gpu_page(index=1, energy=0))
        events = bench.read(gpu_page() + gpu_page(index=1, energy=1), after=200.0)
        assert tally(events) == (1, {Reason.UNCHANGED: 1})


def test_a_frozen_page_in_another_order_is_still_frozen() -> None:
    """Old versions write their families in a new order every time."""
    rows = gpu_page().splitlines(keepends=True)
    with Bench(unchanged_limit=100.0) as bench:
        bench.read("".join(rows))
        assert bench.reason("".join(reversed(rows)), after=200.0) is Reason.UNCHANGED


# Whole pages.

OWN_PAGES: Mapping[str, tuple[int, Mapping[Reason, int]]] = {
    "blanks.prom": (1, {Reason.BLANK: 3, Reason.NO_TENSOR_COUNTER: 1, Reason.NO_CLOCK: 1}),
    "lower-case.prom": (1, {}),
    "mig.prom": (3, {}),
    "new-names.prom": (1, {}),
    "old-names.prom": (2, {}),
}

REAL_PAGES: Mapping[str, tuple[int, Mapping[Reason, int]]] = {
    "a100-mig-3inst-active.prom": (3, {}),
    "a100-mig-4workloads.prom": (4, {}),
    "a100-mig-disabled.prom": (1, {}),
    "a100-mig-dra-nopod.prom": (0, {Reason.NO_TENSOR_COUNTER: 3}),
    "a100-mig-enabled-empty.prom": (1, {}),
    "a100-mig-old-namespace.prom": (0, {Reason.NO_TENSOR_COUNTER: 3}),
    "a30-2gpu-mig-excerpt.prom": (6, {}),
    "a800-8gpu-mixed-mig.prom": (10, {}),  # GPU 0 in three instances, seven whole ones
    "gb200-4gpu-baremetal-noprof.prom": (0, {Reason.NO_TENSOR_COUNTER: 4}),
    "gh200-dra-excerpt.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),  # one GPU, three rows
    "h100-8gpu-k8s-mixed-labels.prom": (0, {Reason.NO_TENSOR_COUNTER: 8}),
    "h100-digitalocean-excerpt.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "l4-k8s-full.prom": (1, {}),
    "l40s-2gpu-partial.prom": (0, {Reason.NO_TENSOR_COUNTER: 2}),
    "l40s-eks-pod-excerpt.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "l40s-helm-full.prom": (1, {}),
    "l40s-openshift-excerpt.prom": (0, {Reason.NO_TENSOR_COUNTER: 3}),
    "princeton-fork-slurm-jobid.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "t4-2gpu-k8s-pod.prom": (2, {}),
    "t4-busy-nohelp.prom": (1, {}),
    "t4-idle.prom": (1, {}),
    "t4-label-heavy.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "t400-clock-events-count.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "t400-xid-count.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "v100-2020-empty-pod.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "vgpu-a100-10c-noprof.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
    "vgpu-a100-40c-noprof.prom": (0, {Reason.NO_TENSOR_COUNTER: 1}),
}


@pytest.mark.parametrize("name", sorted(OWN_PAGES))
def test_every_gpu_of_an_invented_page_is_read_or_has_a_reason(bench: Bench, name: str) -> None:
    assert tally(bench.read((PAGES / name).read_text())) == OWN_PAGES[name]
    assert bench.source.rejected == {}


@pytest.mark.parametrize("name", sorted(REAL_PAGES))
def test_every_gpu_of_a_real_page_is_read_or_has_a_reason(bench: Bench, name: str) -> None:
    if not SAMPLES.is_dir():
        pytest.skip(f"the real pages are not here: {SAMPLES}")
    assert tally(bench.read((SAMPLES / name).read_text())) == REAL_PAGES[name]
    assert bench.source.rejected == {}


@pytest.mark.parametrize(("folder", "table"), [(PAGES, OWN_PAGES), (SAMPLES, REAL_PAGES)])
def test_no_page_is_left_out(folder: Path, table: Mapping[str, object]) -> None:
    if not folder.is_dir():
        pytest.skip(f"no pages here: {folder}")
    assert {path.name for path in folder.glob("*.prom")} == set(table)


def test_the_new_page_says_all_it_has(bench: Bench) -> None:
    reading = bench.reading((PAGES / "new-names.prom").read_text())
    assert reading.tensor_active == 0.375
    assert reading.pipes == {"hmma": 0.25, "imma": 0.125}
    assert [sample.hz for sample in reading.clocks] == [1.41e9]
    assert (reading.gpu.name, reading.gpu.driver) == ("NVIDIA H200", "590.48.01")
    assert reading.gpu.max_sm_clock_hz == 1.98e9


def test_a_password_in_the_address_is_not_shown() -> None:
    options = dcgm.Options(url="http://me:secret@127.0.0.1:1/metrics", timeout=1.0)
    with pytest.raises(SourceError) as caught:
        dcgm.Source(options).open()
    assert "secret" not in str(caught.value)
    assert "http://127.0.0.1:1/metrics" in caught.value.detail


# A page that names GPUs that are not there.


def crowd(first: int, count: int, value: float) -> str:
    """Rows of GPUs that nobody has seen before, each with values that move."""
    return "".join(
        gpu_page(value, 1400, energy=value, index=9, UUID=f"GPU-fake-{number}")
        for number in range(first, first + count)
    )


def test_gpus_too_many_are_counted_said_once_and_cost_the_known_ones_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Bench(most_gpus=16) as bench:
        real = "".join(gpu_page(0.25, index=index) for index in range(8))
        bench.read(real)
        counted = 0
        for turn in range(1, 6):
            real = "".join(gpu_page(0.25, energy=turn, index=index) for index in range(8))
            bench.read(crowd(3000 * turn, 3000, 0.5) + real, after=COLLECT)
            named = {gpu.uuid for gpu in bench.probe.gpus()}
            assert len(named) == 16
            assert {f"GPU-{index:04d}" for index in range(8)} <= named
            counted += 3000 + 8 - 16
            assert bench.source.rejected["too_many_gpus"] == counted
    assert caplog.text.count("names 2992 GPUs and MIG instances more than are measured") == 1


def test_names_that_look_alike_before_they_are_parsed_are_not_too_many_either(bench: Bench) -> None:
    page = "".join(gpu_page(0.5, index=0, UUID=f'GPU-\\"{number}') for number in range(300))
    assert len(bench.read(page)) == 128
    assert bench.source.rejected["unreadable_line"] > 0


def test_mig_instances_of_sixteen_gpus_all_have_a_place(bench: Bench) -> None:
    whole = "".join(line(ENERGY, 1000, index) for index in range(16))
    parts = "".join(
        gpu_page(0.5, 1400, 1, index, GPU_I_ID=str(part), GPU_I_PROFILE="1g.10gb")
        for index in range(16)
        for part in range(7)
    )
    assert len(readings(bench.read(whole + parts))) == 16 * 7
    assert bench.source.rejected == {}


@pytest.mark.slow
def test_a_page_that_comes_again_is_sorted_once_however_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sorted_pages = []

    def counted(text: str, places: Places) -> ExporterPage:
        sorted_pages.append(text)
        return parse(text, places)

    monkeypatch.setattr(dcgm, "parse", counted)
    with Bench(most_gpus=16) as bench:
        page = crowd(0, 10_000, 0.5)
        assert len(page) > 1 << 20
        bench.read(page)
        sorted_pages.clear()
        for _ in range(3):
            bench.read(page, after=COLLECT)
        assert not sorted_pages
        bench.read(f"{page}\n", after=COLLECT)
        assert len(sorted_pages) == 1
        assert bench.source.rejected["too_many_gpus"] > 0


def asked(pace: PagePace, window: float, step: float, seconds: float) -> list[float]:
    """When the page is read by a lane that polls every `step` and reads every `window`."""
    times = []
    for number in range(round(seconds / step)):
        now = number * step + 0.0004 * (number % 3)  # a thread wakes up a little late
        if number % round(window / step) == 0:
            pace.begin_window(now)
            times.append(now)
        elif pace.check_due(now):
            times.append(now)
    return times


@pytest.mark.parametrize(
    ("collect", "window", "longest"),
    [(1.0, 5.0, 0.5), (5.0, 5.0, 2.5), (30.0, 5.0, 2.5), (30.0, 30.0, 15.0), (5.0, 1.0, 0.5)],
)
def test_a_page_is_read_twice_in_the_shorter_of_a_collection_and_a_window(
    collect: float, window: float, longest: float
) -> None:
    times = asked(PagePace(collect), window, 0.5, 300.0)
    gaps = [after - before for before, after in itertools.pairwise(times) if before > 2 * window]
    assert max(gaps) <= longest + 0.01
    assert len(gaps) <= 300.0 / (longest / 2)


def test_a_page_that_is_read_often_enough_misses_nothing() -> None:
    pace = PagePace(1.0)
    assert sum(pace.take_unseen(number * 0.5) for number in range(100)) == 0
    assert not pace.is_too_slow


@pytest.mark.parametrize(("gap", "unseen"), [(5.0, 400), (1.2, 20), (1.5, 50)])
def test_collections_between_two_pages_are_counted_and_the_settings_blamed(
    gap: float, unseen: int
) -> None:
    pace = PagePace(30.0)
    found = sum(pace.take_unseen(number * 30.0 * gap) for number in range(101))
    assert found == pytest.approx(unseen, abs=1)
    assert pace.is_too_slow


def test_pages_that_failed_are_counted_and_the_settings_not_blamed() -> None:
    pace = PagePace(1.0)
    found = 0
    for number in range(20):
        found += pace.take_unseen(number * 5.0)
        pace.note_failure()
    assert found == 19 * 4
    assert not pace.is_too_slow


def test_one_pause_of_the_whole_process_is_not_how_things_are_set() -> None:
    pace = PagePace(1.0)
    times = [0.0, 0.5, 20.5, 21.0, 21.5]
    assert [pace.take_unseen(at) for at in times] == [0, 0, 19, 0, 0]
    assert not pace.is_too_slow


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_a_url_that_leads_to_two_nodes_in_turn_is_said_once(
    label: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Bench() as bench:
        for turn in range(6):
            host = f"node-{turn % 2}"
            page = gpu_page(energy=turn, UUID=f"GPU-{host}", Hostname=host)
            bench.read(page.replace("Hostname=", f"{label}="), after=COLLECT)
    said = [each.getMessage() for each in caplog.records if "is answered for" in each.getMessage()]
    assert len(said) == 1
    assert "for node-0 and for node-1" in said[0]
    assert "internalTrafficPolicy: Local" in said[0]
