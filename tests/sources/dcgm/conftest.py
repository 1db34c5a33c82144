"""The host engine that all of these tests use."""

from __future__ import annotations

from tests.helpers.dcgm_node import node

__all__ = ["node"]
