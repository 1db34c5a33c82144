"""Says where the seconds of a GPU went, from what a profiler recorded: time, findings, ranks and tiles."""
