"""Workers: pull items from a queue, call a function on each, and store the results in a sink."""

from outlast.worker.errors import FunctionExited, ItemFailed, WrongResultCount
from outlast.worker.measurements import WorkerSummary
from outlast.worker.worker import Worker

__all__ = ["FunctionExited", "ItemFailed", "Worker", "WorkerSummary", "WrongResultCount"]
