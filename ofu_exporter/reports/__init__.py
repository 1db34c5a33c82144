"""Takes in what a job reports of itself, in whatever way the report comes, and compares it with OFU."""
