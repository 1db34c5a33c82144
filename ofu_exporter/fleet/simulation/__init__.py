"""Simulates a fleet whose truth is known: pages of all nodes, the truth beside them, and history."""
