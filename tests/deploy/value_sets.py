"""Values to render the chart with: every example, and every value that an example leaves alone."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.deploy.chart import EXAMPLES, Object

VALUE_SETS: dict[str, Object] = {
    **yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()),
    **{path.stem: yaml.safe_load(path.read_text()) for path in EXAMPLES},
}
MONITORS = {"PodMonitor": "everything", "ServiceMonitor": "service-monitor"}
"""Sets of values with all that a monitor takes, by its kind: the chart makes one of the two."""
