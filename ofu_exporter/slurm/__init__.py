"""What is Slurm's own: job files and the hooks that write them, questions to Slurm, its AdminComment."""
