"""The `ofu-exporter` command, and `python -m ofu_exporter`."""

import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is still being loaded ends it at once, without a traceback."""
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever runs a copy of the code, not what pip installed
        version = sys.version.split()[0]
        raise SystemExit(f"ofu-exporter needs Python 3.10 or newer, and this is {version}")
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ofu_exporter.cli import main as command  # noqa: PLC0415 - loading it takes time

    signal.signal(signal.SIGINT, interrupted)
    command()


if __name__ == "__main__":
    main()
