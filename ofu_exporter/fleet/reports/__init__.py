"""Makes of the history of a fleet what is reported: where its GPU-hours and its peak went."""
