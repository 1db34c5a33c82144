"""The `ofu-exporter` command, and `python -m ofu_exporter`."""

import signal


def main() -> None:
    """Run the command line. Ctrl-C while it is still being loaded ends it at once, without a traceback."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ofu_exporter.cli import main as command  # noqa: PLC0415 - loading it takes time

    signal.signal(signal.SIGINT, interrupted)
    command()


if __name__ == "__main__":
    main()
