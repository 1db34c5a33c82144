"""What the API server may say of ResourceClaims: never more than an error. `test_driver.py` has what becomes of it."""

from __future__ import annotations

import contextlib
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import gpu_pods
from ofu_exporter.schedulers.kubernetes.dra_facts import DraFacts
from ofu_exporter.schedulers.kubernetes.gpu_pods import Allotted, GpuPod
from ofu_exporter.values.reasons import SchedulerReason
from tests.helpers.schema_values import ANYTHING as JSON

CLAIMS = st.fixed_dictionaries(
    {
        "status": JSON
        | st.fixed_dictionaries(
            {"allocation": JSON | st.fixed_dictionaries({"devices": JSON | st.lists(JSON)})}
        )
    }
)


@given(JSON | CLAIMS)
def test_no_document_is_more_than_no_claim(document: object) -> None:
    with contextlib.suppress(SchedulerError):
        gpu_pods.admin_of_claim(document)


def test_a_claim_is_asked_for_until_it_is_read_and_then_no_more() -> None:
    asked: list[str] = []

    def get(path: str) -> object:
        asked.append(path)
        if len(asked) == 1:
            raise SchedulerError(SchedulerReason.UNREACHABLE, "away")
        return {"status": {}}

    pods = {("ns", "p"): GpuPod(allotted={Allotted("gpu-0", "uid", ("ns", "claim"))})}
    facts = DraFacts("", Counter())
    for _ in range(3):
        facts.learn(get, pods)
        assert facts.holders(pods) == pods
    assert len(asked) == 2
    for held in ({}, pods):
        facts.learn(get, held)
    assert len(asked) == 3, "another claim may have its name now"


def test_a_claim_that_is_refused_costs_no_other_claim_what_is_said_of_it() -> None:
    def get(path: str) -> object:
        if "/namespaces/closed/" in path:
            raise SchedulerError(SchedulerReason.NO_PERMISSION, "403")
        result = {"driver": "gpu.nvidia.com", "device": "gpu-0", "adminAccess": True}
        return {"status": {"allocation": {"devices": {"results": [result]}}}}

    pods = {
        (space, "p"): GpuPod(allotted={Allotted("gpu-0", "uid", (space, "claim"))})
        for space in ("closed", "monitoring")
    }
    facts = DraFacts("", Counter())
    facts.learn(get, pods)
    assert facts.holders(pods).keys() == {("closed", "p")}
