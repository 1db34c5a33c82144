"""Scenes of the terminal: a node with an hour behind it, several of them, and some that do not answer."""

from __future__ import annotations

from functools import lru_cache

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.node_json import NodeJson, node_state
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from tests.helpers.shown_node import node_after

GONE = "does not answer: timed out"


@lru_cache
def shown_node() -> NodeJson:
    """The node whose pages the docs show, as its agent answers."""
    node = node_after()
    return node_state(node.snapshot, node.history, "node-17", 1.4, Faults())


def one_node() -> Scene:
    return Scene((SceneAnswer("node-17", shown_node(), age=1.4),), "its agent")


def many_nodes(*gone: str, nodes: int = 3) -> Scene:
    """Nodes that are alike, and some that do not answer."""
    answers = [SceneAnswer(f"node-{17 + place}", shown_node(), age=1.4) for place in range(nodes)]
    return Scene((*answers, *(SceneAnswer(name, None, GONE) for name in gone)), "their agents")


class StillFeed:
    """A feed whose scene a test sets."""

    def __init__(self, scene: Scene) -> None:
        self.now = scene

    def start(self) -> None:
        """Nothing to begin."""

    def scene(self) -> Scene:
        return self.now

    def complete(self, seconds: float) -> Scene:
        assert seconds > 0
        return self.now

    def stop(self) -> None:
        """Nothing is held."""
