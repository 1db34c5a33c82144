"""Inputs of the corpus that still do harm, each with what happens. Whoever mends one takes it out."""

from __future__ import annotations

MISSED: dict[str, str] = {}
