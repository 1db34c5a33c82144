"""Frozen values that cross a border between rooms, and every reason with its advice."""
