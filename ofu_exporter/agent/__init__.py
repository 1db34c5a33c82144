"""Runs the program: sampling threads, attribution, reload, start and stop."""
