"""Reports what a training log says of its own MFU, as it is written."""
