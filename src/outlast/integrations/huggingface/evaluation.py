"""The evaluation data of a trainer: what it keeps from one evaluation to the next.

Loaders are made for each evaluation, so only what outlives them is saved: the data sets, the
collator, what functions of the trainer's own class refer to, and that workers were started.
"""

from typing import Any

from outlast.checkpoint.position.index_pass import keeps_workers
from outlast.checkpoint.position.sources import is_torch_loader
from outlast.checkpoint.position.worker_shield import shield_workers
from outlast.integrations.evaluation_data import (
    EvaluationData,
    KeptWorkers,
    has_workers,
    start_workers,
)
from outlast.integrations.huggingface.parts import own_attributes

_FUNCTIONS = ("get_eval_dataloader", "_get_eval_sampler", "evaluate", "prediction_step")


class TrainerEvaluation:
    """Reads and restores what the evaluations of a trainer depend on."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._data = EvaluationData(_roots(trainer), name="evaluation data")
        self._workers: dict[int, tuple[Any, KeptWorkers]] = {}

    def track(self, loader: Any) -> None:
        """A loader that the trainer evaluates with, perhaps again."""
        base = getattr(loader, "base_dataloader", loader)
        if is_torch_loader(base) and id(base) not in self._workers:
            shield_workers(base)
            if keeps_workers(base):
                # Held with the loader, so that no identity is used twice.
                self._workers[id(base)] = base, KeptWorkers(base, name="evaluation")

    def read(self) -> dict[str, Any]:
        for _, workers in self._workers.values():
            workers.check()
        started = [name for name, one in self._kept_loaders().items() if has_workers(one)]
        return self._data.state() | {"workers": started}

    def write(self, saved: dict[str, Any]) -> None:
        self._data.restore(saved)
        for name in saved["workers"]:
            # The trainer keeps it under this name.
            self._trainer.get_eval_dataloader(*([] if name == "eval" else [name]))
            if (loader := self._kept_loaders().get(name)) is not None:
                start_workers(loader, had_workers=True)

    def _kept_loaders(self) -> dict[str, Any]:
        """The loaders whose workers the trainer keeps, inside those of accelerate."""
        kept = getattr(self._trainer, "_eval_dataloaders", {})
        return {name: getattr(one, "base_dataloader", one) for name, one in kept.items()}


def _roots(trainer: Any) -> dict[str, Any]:
    roots = {name: getattr(trainer, name) for name in ("eval_dataset", "data_collator")}
    for name in _FUNCTIONS:
        for kind in type(trainer).__mro__:
            # Only the program's own: the search leaves out what belongs to libraries.
            if name in vars(kind) and not kind.__module__.startswith(("transformers.", "trl.")):
                roots[f"{kind.__qualname__}.{name}"] = vars(kind)[name]
    return roots | own_attributes(trainer)
