"""A pod as the API server may say it: never more than an error, and never what cannot be shown."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.schedulers.kubernetes import workloads

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CONTAINERS = JSON | st.lists(
    st.fixed_dictionaries({}, optional={"name": JSON, "restartCount": JSON, "state": JSON})
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "name": JSON,
                "uid": JSON,
                "labels": JSON
                | st.dictionaries(st.sampled_from(["ray.io/cluster", workloads.ATTEMPT]), JSON),
                "annotations": JSON,
                "ownerReferences": JSON
                | st.lists(
                    st.fixed_dictionaries(
                        {"controller": st.just(True)},
                        optional={key: JSON for key in ("apiVersion", "kind", "name", "uid")},
                    )
                ),
            },
        ),
        "status": JSON
        | st.fixed_dictionaries(
            {}, optional={"startTime": JSON, "phase": JSON, "containerStatuses": CONTAINERS}
        ),
    },
)


@pytest.mark.slow
@given(JSON | PODS)
def test_no_document_is_more_than_no_pod(document: object) -> None:
    with contextlib.suppress(ValueError):
        found = workloads.read(document, "user", "account")
        words = (found.name, found.uid, found.queue, found.user, found.account)
        assert all(workloads.is_sane(word) for word in words)
