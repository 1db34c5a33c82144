"""ofu-exporter: how much of a GPU's floating-point capability its jobs really use, for Prometheus."""

__version__ = "0.1.0"
_ARCHIVED = "$Format:%H$"
"""`git archive` writes the commit here (.gitattributes), and with it every release has it."""
__revision__ = "" if _ARCHIVED.startswith("$") else _ARCHIVED
"""The commit that this is made of; "" where it was not made from an archive."""
