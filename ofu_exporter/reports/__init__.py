"""Takes in the reports of jobs, from whichever way they come, and compares them with OFU."""
