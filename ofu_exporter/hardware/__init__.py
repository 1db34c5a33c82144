"""What GPUs are rated at, and what kernels on them execute."""
