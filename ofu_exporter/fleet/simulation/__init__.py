"""Simulates a fleet whose true values are known: pages of all nodes, the true values, and history."""
