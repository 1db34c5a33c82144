"""The running program: sampling threads, attribution, reload, start and stop."""
