"""What several ranks cost: to agree on a step, and to save together."""

from bench.ranks.measures import report

__all__ = ["report"]
