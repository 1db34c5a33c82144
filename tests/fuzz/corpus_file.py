"""Keeps what fuzzing has found: a folder per target, a file per input, named by its content."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def keep(target: str, data: bytes) -> Path:
    """Put an input into the corpus; where it is now."""
    path = FOLDER / target / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def kept(target: str) -> list[Path]:
    """What was found of a target."""
    return sorted((FOLDER / target).iterdir()) if (FOLDER / target).exists() else []
