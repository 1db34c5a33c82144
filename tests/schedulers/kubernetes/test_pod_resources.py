"""What may come over the wire from kubelet, or from what pretends to be kubelet."""

from __future__ import annotations

import base64
import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import driver, pod_resources
from ofu_exporter.schedulers.kubernetes.pod_resources import (
    ClaimedDevice,
    PluginDevice,
    PodResources,
)
from ofu_exporter.values.reasons import SchedulerReason
from tests.doubles.kubelet import CLASSES, GPU, Message, claimed, make, pod, response
from tests.doubles.kubelet import given as devices_of
from tests.helpers.agent import SOON


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine must not fail a test; those about haste say so."""
    monkeypatch.setattr(pod_resources, "SECONDS", SOON)


# Servers that speak something else.

SETTINGS = bytes.fromhex("000000 04 00 00000000")
PING = bytes.fromhex("000008 06 00 00000000") + bytes(8)


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return (
        len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content
    )


def headers(*pairs: tuple[str, str], is_end: bool = False) -> bytes:
    """A HEADERS frame of literal fields, without compression."""
    packed = b"".join(
        b"\x00" + b"".join(bytes((len(word),)) + word.encode() for word in pair) for pair in pairs
    )
    return frame(1, 0x4 | is_end, 1, packed)


def data(content: bytes) -> bytes:
    return frame(0, 0, 1, content)


OK_START = SETTINGS + headers((":status", "200"), ("content-type", "application/grpc"))
OK_END = headers(("grpc-status", "0"), is_end=True)

Talk = Callable[[socket.socket, threading.Event], None]


class Impostor:
    """Listens on a Unix socket, and says what the test says to whoever comes."""

    def __init__(self, path: Path) -> None:
        self.words = b""
        self.talk: Talk | None = None
        self._stopped = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def say(self, words: bytes) -> None:
        """Say this and hang up."""
        self.words, self.talk = words, None

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):
                if self._stopped.is_set():
                    return
                connection.recv(1 << 16)
                if self.talk is None:
                    connection.sendall(self.words)
                else:
                    self.talk(connection, self._stopped)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):  # else what was said could be lost
                    pass

    def stop(self) -> None:
        self._stopped.set()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as last:
            last.connect(self._listener.getsockname())
        self._thread.join()
        self._listener.close()


@pytest.fixture(scope="module")
def impostor() -> Iterator[tuple[Impostor, driver.Scheduler]]:
    """One, and a scheduler that takes it for kubelet."""
    with tempfile.TemporaryDirectory(prefix="ofu-") as name:
        path = Path(name) / "kubelet.sock"
        server = Impostor(path)
        options = driver.Options(kubelet_socket=path, kubernetes_metadata="off")
        try:
            yield server, driver.Scheduler(options)
        finally:
            server.stop()


Pretence = tuple[Impostor, driver.Scheduler]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (OK_START + data(bytes(5)) + OK_END, None),
        (OK_START + data(bytes(3)) + PING + data(bytes(2)) + OK_END, None),
        (OK_START + data(bytes(5)) + OK_END + frame(7, 0, 0, bytes(8)), None),
        (b"", SchedulerReason.UNREACHABLE),
        (SETTINGS, SchedulerReason.UNREACHABLE),
        (OK_START + data(bytes(5)), SchedulerReason.UNREACHABLE),
        (SETTINGS + frame(6, 0, 0, bytes(3)), SchedulerReason.BAD_ANSWER),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", SchedulerReason.UNREACHABLE),
        (SETTINGS + headers((":status", "404"), is_end=True), SchedulerReason.BAD_ANSWER),
        (SETTINGS + headers((":status", "200"), is_end=True), SchedulerReason.BAD_ANSWER),
        (OK_START + headers(("grpc-status", "x"), is_end=True), SchedulerReason.BAD_ANSWER),
        (OK_START + headers(("grpc-status", "²"), is_end=True), SchedulerReason.BAD_ANSWER),
        (OK_START + headers(("grpc-status", "0" * 99), is_end=True), SchedulerReason.BAD_ANSWER),
        (OK_START + OK_END, SchedulerReason.BAD_ANSWER),
        (OK_START + data(bytes(4)) + OK_END, SchedulerReason.BAD_ANSWER),
        (OK_START + data(bytes(4) + b"\x01") + OK_END, SchedulerReason.BAD_ANSWER),
        (OK_START + data(b"\x01" + bytes(4)) + OK_END, SchedulerReason.BAD_ANSWER),
        (OK_START + data(bytes(4) + b"\x02\x0a\x05") + OK_END, SchedulerReason.BAD_ANSWER),
    ],
)
def test_what_a_server_may_say_instead(
    impostor: Pretence, words: bytes, reason: SchedulerReason | None
) -> None:
    server, scheduler = impostor
    server.say(words)
    if reason is None:
        assert scheduler.claims() == []
        return
    with pytest.raises(SchedulerError) as caught:
        scheduler.claims()
    assert caught.value.reason is reason


@pytest.mark.parametrize("last", [frame(3, 0, 1, bytes(3) + b"\x07"), frame(7, 0, 0, bytes(8))])
def test_a_server_that_breaks_off_is_not_asked_on(impostor: Pretence, last: bytes) -> None:
    server, scheduler = impostor
    server.say(SETTINGS + last)
    with pytest.raises(SchedulerError, match="the server broke off") as caught:
        scheduler.claims()
    assert caught.value.reason is SchedulerReason.UNREACHABLE


def test_a_name_that_is_no_text_costs_its_own_pod_only(impostor: Pretence) -> None:
    """The real library makes no such message, so it is changed afterwards."""
    server, scheduler = impostor
    pods = [pod("bad1", devices_of(GPU, "GPU-a")), pod("good", devices_of(GPU, "GPU-b"))]
    packed = response(pods).SerializeToString().replace(b"bad1", b"bad\xff")
    server.say(OK_START + data(bytes(1) + len(packed).to_bytes(4, "big") + packed) + OK_END)
    before = scheduler.rejected.get("malformed", 0)
    assert [claim.job.name for claim in scheduler.claims()] == ["good"]
    assert scheduler.rejected["malformed"] == before + 1


def test_a_server_that_keeps_talking_is_given_up(
    impostor: Pretence, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, scheduler = impostor
    monkeypatch.setattr(pod_resources, "SECONDS", 0.3)

    def drip(connection: socket.socket, stopped: threading.Event) -> None:
        connection.sendall(SETTINGS)
        for _ in range(1000):  # it ends even where nobody gives up
            connection.sendall(PING)
            stopped.wait(0.02)

    server.talk = drip
    with pytest.raises(SchedulerError, match="no answer") as caught:
        scheduler.claims()
    assert caught.value.reason is SchedulerReason.UNREACHABLE


FRAMES = st.builds(
    frame, st.integers(0, 11), st.integers(0, 255), st.integers(0, 3), st.binary(max_size=80)
)


@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.lists(FRAMES, max_size=8).map(lambda frames: SETTINGS + b"".join(frames))
    | st.lists(FRAMES, max_size=8).map(lambda frames: OK_START + b"".join(frames))
    | st.binary(max_size=200).map(
        lambda body: OK_START + data(bytes(1) + len(body).to_bytes(4, "big") + body) + OK_END
    )
)
def test_no_words_of_a_server_are_more_than_an_error(impostor: Pretence, words: bytes) -> None:
    server, scheduler = impostor
    server.say(words)
    with contextlib.suppress(SchedulerError):
        scheduler.claims()


# The decoder and the real library.

WORDS = st.text(max_size=20)
UNKNOWN = st.sampled_from(
    [
        b"",
        bytes.fromhex("c03e 05"),  # field 1000, a number
        bytes.fromhex("c13e") + bytes(8),
        bytes.fromhex("c53e") + bytes(4),
        bytes.fromhex("c23e 03") + b"new",
        bytes.fromhex("0805"),  # field 1 as a number, which is no text
    ]
)


@st.composite
def messages(draw: st.DrawFn, kind: str) -> Message:
    """A message of kubelet's with fields that nobody here knows."""
    message = CLASSES[kind]()
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            values = st.lists(messages(field.message_type.name), max_size=2)
        elif field.type == field.TYPE_STRING:
            values = st.lists(WORDS, max_size=3)
        else:
            values = st.lists(st.integers(0, 2**63 - 1), max_size=3)
        for value in draw(values):
            packed = make(kind, **{field.name: [value] if field.is_repeated else value})
            message.MergeFrom(packed)
    message.MergeFromString(draw(UNKNOWN))
    return message


def expected(entry: Message) -> PodResources:
    """What the real library reads."""
    containers = entry.containers
    return PodResources(
        namespace=entry.namespace,
        name=entry.name,
        devices=tuple(
            PluginDevice(device.resource_name, name, container.name)
            for container in containers
            for device in container.devices
            for name in device.device_ids
        ),
        claimed=tuple(
            ClaimedDevice(
                driver=resource.driver_name,
                pool=resource.pool_name,
                device=resource.device_name,
                share=resource.share_id,
                cdi=tuple(device.name for device in resource.cdi_devices),
                container=container.name,
                claim=(dynamic.claim_namespace, dynamic.claim_name),
            )
            for container in containers
            for dynamic in container.dynamic_resources
            for resource in dynamic.claim_resources
        ),
    )


@pytest.mark.slow
@settings(deadline=None)
@given(messages("ListPodResourcesResponse"))
def test_the_decoder_reads_what_the_real_library_reads(message: Message) -> None:
    packed = message.SerializeToString()
    read_back = CLASSES["ListPodResourcesResponse"].FromString(packed)  # type: ignore[attr-defined]
    assert pod_resources.decode(packed, [b""]) == [expected(pod) for pod in read_back.pod_resources]


@given(st.data())
def test_damage_is_at_most_an_error(draw: st.DataObject) -> None:
    packed = bytearray(
        response(
            [pod("p", devices_of(GPU, "a", "b"), [claimed("gpu-0")], cpus=3), pod("q")]
        ).SerializeToString()
    )
    for _ in range(draw.draw(st.integers(1, 4))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.integers(0, len(packed)))
    with contextlib.suppress(ValueError):
        pod_resources.decode(bytes(packed[:cut]), [b""])


@given(st.binary())
def test_what_is_no_protobuf_is_at_most_an_error(packed: bytes) -> None:
    with contextlib.suppress(ValueError):
        pod_resources.decode(packed, [b""])


@pytest.mark.parametrize(
    "packed", [b"\x02\x00", b"\x0a\x05ab", b"\x09\x01", b"\x0b"], ids=bytes.hex
)
def test_what_is_surely_no_protobuf_is_an_error(packed: bytes) -> None:
    """A field 0, a text and a number that are cut, and a group."""
    with pytest.raises(ValueError, match="not protobuf: "):
        pod_resources.decode(packed, [b""])


def test_a_pod_without_a_mark_is_left_packed() -> None:
    packed = response([pod("a", devices_of(GPU, "x")), pod("b")]).SerializeToString()
    assert [entry.name for entry in pod_resources.decode(packed, [b"nvidia.com/"])] == ["a"]


def test_the_reply_of_a_real_kubelet() -> None:
    """Kubelet 1.20.2 with a device plugin: several ids in one ContainerDevices, in any order; NUMA nodes 0 and 1."""
    path = Path(__file__).parent / "replies" / "kubelet-1.20.2-v1-list.b64"
    listed = pod_resources.decode(base64.b64decode(path.read_text()), [b"nvidia.com/gpu"])
    assert {
        f"{each.namespace}/{each.name}": [device.device_id for device in each.devices]
        for each in listed
    } == {
        "default/filler": ["SIMULATED-1-1", "SIMULATED-1-2", "SIMULATED-1-0"],
        "default/train": ["SIMULATED-1-5", "SIMULATED-1-4"],
        "ml/fit-x5cdh": ["SIMULATED-1-6"],
        "ml/ps-0": ["SIMULATED-1-7"],
        "ml/serve-59848c84fb-n9hpc": ["SIMULATED-1-3"],
    }
    assert {device.resource for each in listed for device in each.devices} == {"nvidia.com/gpu"}
