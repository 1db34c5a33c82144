"""What is known of a job: its totals, the state file that keeps them, and how one is found again."""
