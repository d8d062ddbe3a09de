"""Run a command as the first process of a container. Standard library only, quick to import."""

from outlast.supervisor.supervision import CommandNotStarted, supervise

__all__ = ["CommandNotStarted", "supervise"]
