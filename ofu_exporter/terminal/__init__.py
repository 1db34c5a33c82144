"""The terminal's view of one or many nodes: what is shown, and how. It never ends a process or changes a node."""
