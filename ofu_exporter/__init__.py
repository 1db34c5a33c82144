"""ofu-exporter: how much of a GPU's floating-point capability its jobs really use, for Prometheus."""

__version__ = "0.1.0"
