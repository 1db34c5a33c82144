"""All attacks, in the order of the table."""

from __future__ import annotations

from tests.attacks import connections, dear, files, node, pages, readers, requests

ATTACKS = {
    attack.name: attack
    for attack in (
        *node.ATTACKS,
        *connections.ATTACKS,
        *readers.ATTACKS,
        *requests.ATTACKS,
        *dear.ATTACKS,
        *files.ATTACKS,
        *pages.ATTACKS,
    )
}
