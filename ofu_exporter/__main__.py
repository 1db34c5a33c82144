"""`python -m ofu_exporter` is the `ofu-exporter` command."""

from ofu_exporter.cli import main

main()
