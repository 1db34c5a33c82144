"""Says how to install the libraries of an extra: by their own names, because this package is in no public index."""

from __future__ import annotations

EXTRAS = {
    "auth": ("bcrypt>=4.1",),
    "digest": ("apprise>=2.2,<3",),
    "executed": ("torch>=2.6", "transformers>=5", "diffusers>=0.36"),
    "kubernetes": ("h2>=4.3",),
    "mcp": ("mcp>=2.3,<3",),
    "parquet": ("pyarrow>=15",),
    "plot": ("matplotlib>=3.8",),
    "top": ("textual>=3.1",),
    "validate": ("torch>=2.4",),
}
"""What each extra asks for, as pyproject.toml has it: a copied folder has no metadata to ask."""


def install_command(extra: str) -> str:
    """What to type. By the package's own name whoever takes that name in an index would be installed."""
    return " ".join(["pip install", *(f"'{library}'" for library in EXTRAS[extra])])
