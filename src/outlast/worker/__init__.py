"""The loop that pulls items from a queue and puts results into a sink."""

from outlast.worker.errors import ItemFailed, WrongCount
from outlast.worker.summary import Summary
from outlast.worker.worker import Worker

__all__ = ["ItemFailed", "Summary", "Worker", "WrongCount"]
