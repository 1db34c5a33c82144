"""Writes the dashboards as JSON to where the Helm chart and Grafana's provisioning find them.

python -m deploy.grafana.generate
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

from deploy.grafana import dashboards

FOLDER = Path(__file__).parents[2] / "helm" / "ofu-exporter" / "files" / "dashboards"


def generated() -> dict[str, str]:
    """The text of every dashboard's file, by file name."""
    found = {}
    for module in pkgutil.iter_modules(dashboards.__path__):
        made = importlib.import_module(f"{dashboards.__name__}.{module.name}").DASHBOARD
        found[f"{module.name}.json"] = json.dumps(made, indent=1) + "\n"
    return found


if __name__ == "__main__":
    for name, text in generated().items():
        (FOLDER / name).write_text(text)
