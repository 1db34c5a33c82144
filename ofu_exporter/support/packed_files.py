"""Finds the files that a site sets up beside the agent: in the installed package, or in the checkout around it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
PLACES = {
    "alerts": "helm/ofu-exporter/files/alerts",
    "rules": "helm/ofu-exporter/files/rules",
    "dashboards": "helm/ofu-exporter/files/dashboards",
    "systemd": "deploy/systemd",
    "slurm": "deploy/slurm",
    "man": "deploy/man",
}
"""The folders, and where a checkout has them; a wheel has them in ofu_exporter/files."""


def folder(name: str) -> Path:
    packed = PACKAGE / "files" / name
    return packed if packed.is_dir() else PACKAGE.parent / PLACES[name]
