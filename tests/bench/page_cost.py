"""CPU seconds of pages of metrics that are rendered and packed anew, of a recording that was played.

    python FOLDER page_cost.py RECORDING PAGES

FOLDER is one that tests/bench/last_release.py made: the page and the helper that plays the recording are that code's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ofu_exporter.serving.page import Page
from tests.helpers.playback import play

UNTIMED = 5
"""These make the text of labels, which is kept."""


def spent(recording: Path, pages: int) -> float:
    """Each page is new, so that nothing of it was rendered before."""
    snapshot = play(recording)
    seconds = 0.0
    for number in range(-UNTIMED, pages):
        page = Page(lambda: snapshot.at, process=False)
        page.publish(snapshot)
        began = time.thread_time()
        page.render("", "gzip")
        if number >= 0:
            seconds += time.thread_time() - began
    return seconds


if __name__ == "__main__":
    print(spent(Path(sys.argv[1]), int(sys.argv[2])))
