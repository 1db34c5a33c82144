"""What the tests of several sources use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import nvml as double
from tests.helpers.nvml_node import NvmlNode


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlNode]:
    path = tmp_path / "scenario"
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(path))
    library = double.load()
    bench = NvmlNode(path, library)
    library.test_reset()
    yield bench
    bench.close()
    assert bench.samples_alive == 0
    assert library.test_initialised() == 0
