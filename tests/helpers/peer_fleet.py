"""Jobs of some nodes each, in which it is known which GPUs are slow and by how much."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from ofu_exporter.fleet.changes.peers import PeerGroup, PeerHours, Place

Slowness = Mapping[tuple[int, int], float]


def place(node: int, gpu: int) -> Place:
    return Place("", f"n{node}", str(gpu), f"GPU-{node}-{gpu}")


def fleet(
    seed: int, slow: Slowness, nodes: int = 24, jobs: int = 20, largest: int = 8, role: float = 0.0
) -> PeerHours:
    """Jobs of some nodes of four GPUs each. Each GPU differs a little, by itself, by job and by hour."""
    rng = random.Random(seed)
    own = {(n, g): rng.gauss(0, 0.008) for n in range(nodes) for g in range(4)}
    for key, part in slow.items():
        own[key] += math.log(1 - part)
    found = PeerHours()
    for job in range(jobs):
        chosen = rng.sample(range(nodes), rng.randint(2, largest))
        level = rng.uniform(0.2, 0.5)
        gpus = [(n, g) for n in chosen for g in range(4)]
        roles = {key: rng.gauss(0, role) for key in gpus}
        for _ in range(rng.randint(4, 24)):
            found.add(
                PeerGroup("", str(job), "H100"),
                {
                    place(*key): level * math.exp(own[key] + roles[key] + rng.gauss(0, 0.01))
                    for key in gpus
                },
            )
    return found
