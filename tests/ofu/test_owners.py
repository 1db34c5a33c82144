"""Who holds what, and which claims are not believed, beside what the schedulers say of themselves."""

from __future__ import annotations

from ofu_exporter.ofu.owners import OwnerState, take_changes, with_rejected
from ofu_exporter.values.instant import Now
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reading import Window
from ofu_exporter.values.snapshot import SchedulerHealth
from tests.helpers.values import gpu

A, B = Job("slurm", "1"), Job("kubernetes", "ns/pod")
WINDOW = Window(0.0, 5.0, 0.5, {}, 1400e6, 0.4)


def test_before_anything_is_known_nobody_holds_a_gpu() -> None:
    known = OwnerState()
    assert known.holders(gpu().key) == ()
    assert known.sole_holder(gpu().key, WINDOW) is None


def test_what_a_scheduler_did_not_believe_itself_is_counted_with_what_was_not_believed_of_it() -> (
    None
):
    claims = (Claim(A, ("0",)), Claim(B, ("0",)))
    change = Ownership(1.0, claims)
    known, _ = take_changes(OwnerState(), {}, (gpu(),), [change], Now(2.0, 1002.0))
    slurm = SchedulerHealth("slurm", rejected={"malformed": 2})
    assert with_rejected(known, slurm).rejected == {"malformed": 2, "contested": 1}
    other = SchedulerHealth("kubernetes", rejected={"expired": 1})
    assert with_rejected(known, other).rejected == {"expired": 1}, (
        "the first who claimed it is asked"
    )
