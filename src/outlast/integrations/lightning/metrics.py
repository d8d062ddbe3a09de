"""What the program has logged in the current epoch: Lightning keeps it in memory only.

`self.log(..., on_epoch=True)` accumulates over an epoch, and so do the metrics of torchmetrics. A
resume within the epoch continues with the sums as they were, so that its mean is that of the
complete epoch.
"""

import importlib
from typing import Any

from outlast._base.logs import get_logger

log = get_logger(__name__)

_FIELDS = (
    "fx",
    "name",
    "prog_bar",
    "logger",
    "on_step",
    "on_epoch",
    "enable_graph",
    "add_dataloader_idx",
    "dataloader_idx",
    "metric_attribute",
)
_VALUES = ("value", "cumulated_batch_size", "_forward_cache")
_COUNTS = ("has_reset", "_update_count")


def logged_state(trainer: Any) -> dict[str, Any]:
    """The sums of the epoch, the metrics of torchmetrics, and what was logged last."""
    connector = trainer._logger_connector
    return {
        "results": {
            key: _result_state(result)
            for key, result in trainer.fit_loop.epoch_loop._results.items()
        },
        "metrics": {
            name: _metric_state(metric)
            for name, metric in metrics_in(trainer.lightning_module).items()
        },
        "trackers": {name: one.n_steps for name, one in _trackers_in(trainer.lightning_module)},
        "last": {
            name: dict(getattr(connector, f"_{name}"))
            for name in ("progress_bar_metrics", "logged_metrics", "callback_metrics")
        },
        "first_iteration": connector._first_loop_iter,
        "current_fx": connector._current_fx,
    }


def restore_logged(trainer: Any, state: dict[str, Any]) -> None:
    connector = trainer._logger_connector
    for name, metric in metrics_in(trainer.lightning_module).items():
        if name in state["metrics"]:
            vars(metric).update(state["metrics"][name])
    results = trainer.fit_loop.epoch_loop._results
    results.clear()
    for key, saved in state["results"].items():
        if saved["has_group"]:
            log.warning(
                "%r is logged with sync_dist_group, and its sum could not be saved. Its mean "
                "covers only the rest of this epoch.",
                saved["meta"]["name"],
            )
        else:
            results[key] = _result(trainer, saved)
    for name, saved in state["last"].items():
        setattr(connector, f"_{name}", dict(saved))
    connector._first_loop_iter = state["first_iteration"]
    connector._current_fx = state["current_fx"]


def _result_state(result: Any) -> dict[str, Any]:
    meta = result.meta
    names = (*_VALUES, *_COUNTS) if result.is_tensor else ("_forward_cache", *_COUNTS)
    return {
        "is_tensor": result.is_tensor,
        "meta": {name: getattr(meta, name) for name in _FIELDS},
        "reduce": meta.reduce_fx.__name__,
        "sync": {
            "should": meta.sync.should,
            "rank_zero_only": meta.sync.rank_zero_only,
            "op": meta.sync.op,
        },
        "has_group": meta.sync.group is not None,
        "values": {name: _detached(result, name) for name in names if hasattr(result, name)},
    }


def _detached(result: Any, name: str) -> Any:
    found = getattr(result, name)
    return found.detach() if hasattr(found, "detach") else found


def _result(trainer: Any, saved: dict[str, Any]) -> Any:
    """What `self.log` would have created, with the saved sums."""
    module = importlib.import_module(type(trainer.fit_loop.epoch_loop._results).__module__)
    meta = module._Metadata(**saved["meta"], reduce_fx=saved["reduce"])
    sync = saved["sync"]
    meta.sync = module._Sync(
        _should=sync["should"],
        fn=trainer.strategy.reduce,
        rank_zero_only=sync["rank_zero_only"],
        _op=sync["op"],
    )
    result = module._ResultMetric(meta, saved["is_tensor"])
    if not saved["is_tensor"]:
        result.value = trainer.lightning_module.get_submodule(saved["meta"]["metric_attribute"])
    vars(result).update(saved["values"])
    return result.to(trainer.strategy.root_device)


def metrics_in(module: Any) -> dict[str, Any]:
    """The metrics of torchmetrics that the module has, by name."""
    kind = importlib.import_module("torchmetrics").Metric
    return {name: one for name, one in module.named_modules() if isinstance(one, kind)}


def metric_names(module: Any) -> frozenset[str]:
    """The attributes of metrics that torchmetrics knows of; some keep others as well."""
    base = importlib.import_module("torchmetrics").SumMetric()
    return frozenset(vars(base)).union(*(one._defaults for one in metrics_in(module).values()))


def restore_trackers(module: Any, state: dict[str, Any]) -> None:
    """Give each `MetricTracker` as many metrics as it had."""
    for name, tracker in _trackers_in(module):
        count = state.get("trackers", {}).get(name, tracker.n_steps)
        while tracker.n_steps < count:
            tracker.increment()
        while tracker.n_steps > count:
            tracker._modules.popitem()


def _trackers_in(module: Any) -> list[tuple[str, Any]]:
    kind = importlib.import_module("torchmetrics").MetricTracker
    return [(name, one) for name, one in module.named_modules() if isinstance(one, kind)]


def _metric_state(metric: Any) -> dict[str, Any]:
    """What a metric has gathered. Unlike its state_dict, which is empty as a rule."""
    gathered = {name: getattr(metric, name) for name in metric._defaults}
    return {**gathered, "_update_count": metric._update_count, "_computed": metric._computed}
