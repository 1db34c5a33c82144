"""Says where the GPU-hours of a fleet went, from the history that a Prometheus keeps."""
