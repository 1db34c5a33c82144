"""What GPUs are rated at, and how many FLOPs the kernels on them execute."""
