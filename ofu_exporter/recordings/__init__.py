"""Recordings of what a source read: how they are written and read, and the one that the demo plays."""

from pathlib import Path

H100_TRAINING = Path(__file__).with_name("h100-training.jsonl.gz")
"""Five training jobs on one H100, one after another in ten minutes (docs/hardware.md)."""
