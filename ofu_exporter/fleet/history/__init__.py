"""Reads from a Prometheus what the jobs and GPUs of a fleet did, as sums hour by hour."""
