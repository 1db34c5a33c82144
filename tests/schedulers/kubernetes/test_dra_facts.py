"""What the API server may say of ResourceClaims: never more than an error. `test_driver.py` has what becomes of it."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import gpu_pods
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
