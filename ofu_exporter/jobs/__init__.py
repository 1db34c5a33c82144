"""What is known of a job: its totals, the state file that keeps them, and how a job is found again."""
