"""Reads a Prometheus and answers for many nodes and weeks. Knows nothing of the agent."""
