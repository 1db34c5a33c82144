"""Counts what torch executes of a model of any kind, with torch's own counter: needs the extra `trace`."""
