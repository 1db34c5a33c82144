"""Kubelet is asked over its socket, and a reply without end or without time is given up."""

from __future__ import annotations

import sys

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import grpc as channel_module
from ofu_exporter.schedulers.kubernetes import pod_resources
from ofu_exporter.values.reasons import SchedulerReason
from tests.doubles.kubelet import pod, response
from tests.helpers.agent import SOON
from tests.helpers.kubernetes_bench import Bench, holding


@pytest.mark.slow
def test_a_reply_may_be_larger_than_grpc_lets_others_take(bare: Bench) -> None:
    many = [pod("x" * 250 + str(number), cpus=500) for number in range(8000)]
    size = len(response(many).SerializeToString())
    assert size > 4 << 20
    assert bare.claims(*many, holding("p", "GPU-a")) == {"ns/p": ("GPU-a",)}


def test_a_kubelet_that_restarts_between_two_questions_costs_none(bare: Bench) -> None:
    bare.claims(holding("p", "GPU-a"))
    bare.kubelet.stop()
    bare.kubelet.start()
    assert bare.claims() == {"ns/p": ("GPU-a",)}


def test_a_kubelet_that_hangs_is_given_up(bare: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_resources, "SECONDS", 0.2)
    bare.kubelet.is_hung = True
    failure = bare.failure()
    assert failure.reason is SchedulerReason.UNREACHABLE
    assert "no answer" in failure.detail


@pytest.mark.parametrize(
    ("socket_is_there", "reason"),
    [(True, SchedulerReason.NO_LIBRARY), (False, SchedulerReason.ABSENT)],
)
def test_a_missing_library_matters_only_where_kubelet_is(
    bare: Bench, monkeypatch: pytest.MonkeyPatch, socket_is_there: bool, reason: SchedulerReason
) -> None:
    monkeypatch.setitem(sys.modules, "h2.config", None)
    if not socket_is_there:
        bare.kubelet.path.unlink()
    assert bare.failure().reason is reason


def test_a_reply_beyond_all_reason_is_not_kept(
    bare: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_REPLY_BYTES", 100_000)
    bare.hold(pod("x" * 200_000))
    assert bare.failure().reason is SchedulerReason.TOO_LARGE


@pytest.mark.parametrize(
    ("headers", "body", "detail"),
    [
        ({":status": "404", "grpc-status": "0"}, bytes(5), "HTTP status 404"),
        ({":status": "200"}, bytes(5), "no gRPC status"),
        ({":status": "200", "grpc-status": "0"}, b"\1" + bytes(4), "not one plain message"),
        ({":status": "200", "grpc-status": "0"}, bytes(6), "not one plain message"),
    ],
)
def test_a_reply_that_is_not_one_message_of_grpc_is_refused(
    bare: Bench, headers: dict[str, str], body: bytes, detail: str
) -> None:
    with (
        channel_module.GrpcChannel(bare.kubelet.path, SOON) as channel,
        pytest.raises(SchedulerError, match=detail),
    ):
        channel._reply(headers, body)
