"""What a job says of itself, however that comes, and how it compares with OFU."""
