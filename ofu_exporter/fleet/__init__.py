"""Everything about many nodes at once; the agent knows nothing of this room."""
