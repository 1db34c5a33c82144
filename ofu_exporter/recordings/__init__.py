"""Recordings of what a source read: how they are written and read, and the one that the demo plays."""
