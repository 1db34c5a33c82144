"""The `ofu-exporter` command, and `python -m ofu_exporter`."""

import io
import os
import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is still being loaded ends it at once, without a traceback."""
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever runs a copy of the code, not what pip installed
        version = sys.version.split()[0]
        raise SystemExit(f"ofu-exporter needs Python 3.10 or newer, and this is {version}")
    _open_standard_streams()
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ofu_exporter.cli import main as command  # noqa: PLC0415 - loading it takes time

    signal.signal(signal.SIGINT, interrupted)
    command()


def _open_standard_streams() -> None:
    """Have them take any text, and open those that are closed: a socket in standard error's place would get the log."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name's letters may be none of the locale's.
        sys.stdout.reconfigure(errors="backslashreplace")
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It takes the lowest descriptor that is free: the one that is closed.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - stays open


if __name__ == "__main__":
    main()
