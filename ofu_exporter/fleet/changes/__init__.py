"""Finds where the level of a series of OFU changed, and which GPUs and nodes are slower than their peers."""
