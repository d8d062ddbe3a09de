"""Outlast makes AI workloads finish on capacity that will be taken away.

Importing this package does nothing but define names; each is loaded on first use.
"""

# Type checkers know this name; importing it from typing would double the time of this import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast._base.version import __version__ as __version__
    from outlast.capacity.planning.plan import plan
    from outlast.capacity.workload.file import Workload
    from outlast.checkpoint.checkpointer import Checkpointer
    from outlast.checkpoint.state.replicas import replicated
    from outlast.checkpoint.state.values import value
    from outlast.drills.rehearsal import drill
    from outlast.errors import Interrupted, OutlastError, SettingError
    from outlast.interruption.children import shield_worker
    from outlast.interruption.guard import Guard
    from outlast.interruption.notice import Notice, NoticeSource
    from outlast.manifests.linting import lint
    from outlast.publishing.publish import publish
    from outlast.queue.opening import open_queue
    from outlast.results.opening import open_sink
    from outlast.run.run import Run
    from outlast.worker.errors import ItemFailed
    from outlast.worker.worker import Worker

__all__ = [
    "Checkpointer",
    "Guard",
    "Interrupted",
    "ItemFailed",
    "Notice",
    "NoticeSource",
    "OutlastError",
    "Run",
    "SettingError",
    "Worker",
    "Workload",
    "drill",
    "lint",
    "open_queue",
    "open_sink",
    "plan",
    "publish",
    "replicated",
    "shield_worker",
    "value",
]

_HOMES = {
    "Checkpointer": "outlast.checkpoint.checkpointer",
    "Guard": "outlast.interruption.guard",
    "Interrupted": "outlast.errors",
    "ItemFailed": "outlast.worker.errors",
    "Notice": "outlast.interruption.notice",
    "NoticeSource": "outlast.interruption.notice",
    "OutlastError": "outlast.errors",
    "Run": "outlast.run.run",
    "SettingError": "outlast.errors",
    "Worker": "outlast.worker.worker",
    "Workload": "outlast.capacity.workload.file",
    "drill": "outlast.drills.rehearsal",
    "lint": "outlast.manifests.linting",
    "open_queue": "outlast.queue.opening",
    "open_sink": "outlast.results.opening",
    "plan": "outlast.capacity.planning.plan",
    "publish": "outlast.publishing.publish",
    "replicated": "outlast.checkpoint.state.replicas",
    "shield_worker": "outlast.interruption.children",
    "__version__": "outlast._base.version",
    "value": "outlast.checkpoint.state.values",
}


# Hidden from type checkers, which would take it to mean that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'outlast' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
