"""Slices of devices as the API server may say them: never more than an error, whatever the document."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import gpu_pods
from tests.helpers.schema_values import ANYTHING as JSON

SLICES = st.fixed_dictionaries(
    {
        "items": JSON
        | st.lists(
            st.fixed_dictionaries(
                {
                    "spec": st.fixed_dictionaries(
                        {"driver": st.just(gpu_pods.DRIVER), "devices": JSON | st.lists(JSON)}
                    )
                }
            )
        )
    }
)


@pytest.mark.slow
@given(JSON | SLICES)
def test_no_document_is_more_than_no_slices(document: object) -> None:
    with contextlib.suppress(SchedulerError):
        gpu_pods.uuids_of_slices(document)
