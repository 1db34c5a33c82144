"""Reports the MFU that a training log states, while the log is written."""
