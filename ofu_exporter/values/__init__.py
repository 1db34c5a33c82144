"""Frozen values that the rooms exchange, and every reason with its advice."""
