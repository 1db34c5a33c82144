"""A file of the site's tokens."""

from __future__ import annotations

from pathlib import Path


def token_file(path: Path, *lines: str, mode: int = 0o600) -> Path:
    """Write one, or write it anew."""
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(mode)
    return path
