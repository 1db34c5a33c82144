"""What is known of a job: its totals, the state file that keeps them, and the lookup of a job."""
