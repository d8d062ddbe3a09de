"""Trainings with Lightning, as their users write them: a program with KIND FOLDER [KEY=VALUE...].

Without `url`, it is plain Lightning. `signal_at` is a batch of this process, at which it signals
itself, and `rank` the rank that does. Prints what the training came to.
"""

import hashlib
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

OPTIONS = dict(argument.split("=", 1) for argument in sys.argv[3:])
# Not installed where types are checked.
L: Any = importlib.import_module(OPTIONS.get("package", "lightning"))
CALLBACKS: Any = importlib.import_module(
    "lightning.pytorch.callbacks" if L.__name__ == "lightning" else "pytorch_lightning.callbacks"
)

METRICS: Any = importlib.import_module("torchmetrics")

SAMPLES = 96
BATCH = 8
TRAINING = "outlast_training"
done: list[int] = []


def samples() -> TensorDataset:
    source = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, 6, generator=source)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


class Stream(IterableDataset[Any]):
    """A data set without a length, with random transforms in this process."""

    def __iter__(self) -> Iterator[Any]:
        for inputs, targets in zip(*samples().tensors, strict=True):
            yield inputs + torch.rand(()), targets


class Noisy(Dataset[Any]):
    """Data that differ each time they are read."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._samples = samples()
        self._draw = draw
        self._count = 0

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        self._count += 1
        inputs, targets = self._samples[index]
        return inputs + self._draw() + 0.01 * self._count, targets


def signal_itself(batches_done: int) -> None:
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == OPTIONS.get("rank", "0"):
        if batches_done == int(OPTIONS.get("signal_at", -1)):
            os.kill(os.getpid(), getattr(signal, OPTIONS.get("signal", "SIGTERM")))


def wait_for_notice(trainer: Any, batches_done: int) -> None:
    """Stay in this batch until the notice has arrived, if it is the one to be evicted in."""
    is_chosen = str(trainer.global_rank) == OPTIONS.get("rank", "0")
    if is_chosen and batches_done == int(OPTIONS.get("notice_at", -1)):
        (training,) = filter(None, (getattr(one, TRAINING, None) for one in trainer.callbacks))
        Path("reached").touch()
        while not training._run.guard.interrupted:
            time.sleep(0.01)


def build_net() -> nn.Sequential:
    # Batch normalization keeps buffers, and dropout draws random numbers.
    return nn.Sequential(
        nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Dropout(0.2), nn.ReLU(), nn.Linear(12, 1)
    )


class Model(L.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.net = build_net()
        self.mean = METRICS.MeanMetric()
        # It counts in an attribute, and the other one has a metric more in each epoch.
        self.recent = METRICS.aggregation.RunningMean(window=5)
        self.tracker = METRICS.MetricTracker(METRICS.MeanMetric(), maximize=False)
        self.samples = 0
        self.lr = 1e-2
        self.factor = 0.0
        # As many programs do; nobody declares them to Lightning.
        self.outputs: list[Any] = []
        self.running = 1.0
        self.register_buffer("center", torch.zeros(1), persistent=False)

    def on_train_start(self) -> None:
        # Runs in each process, and must take effect once.
        with torch.no_grad():
            for parameter in self.net[4].parameters():
                parameter.mul_(0.5)
        torch.rand(())

    def on_train_epoch_start(self) -> None:
        # Set once per epoch and saved nowhere; and random numbers between the epochs.
        torch.rand(())
        self.factor = 1.0 + self.current_epoch
        self.tracker.increment()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["samples"] = self.samples

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.samples = checkpoint["samples"]

    def loss(self, batch: Any) -> Any:
        parts = list(batch.values()) if isinstance(batch, dict) else [batch]
        losses = [nn.functional.mse_loss(self.net(inputs), targets) for inputs, targets in parts]
        return torch.stack(losses).mean()

    def training_step(self, batch: Any, index: int) -> Any:
        loss = self.loss(batch) * self.factor * self.running + self.center
        self.samples += BATCH
        self.outputs.append(loss.detach())
        self.running = 0.9 * self.running + 0.1 * loss.item()
        self.center.lerp_(loss.detach(), 0.1)
        for metric in (self.mean, self.recent, self.tracker):
            metric.update(loss.detach())
        self.log("loss", loss, on_step=True, on_epoch=True, batch_size=BATCH)
        self.log("mean", self.mean, on_step=False, on_epoch=True)
        if index % 5 == 0:
            self.log("most", loss, on_epoch=True, on_step=False, reduce_fx="max", batch_size=BATCH)
        done.append(index)
        signal_itself(len(done))
        wait_for_notice(self.trainer, len(done))
        return loss

    def on_train_epoch_end(self) -> None:
        self.log("outputs", torch.stack(self.outputs).mean())
        self.log("recent", self.recent.compute())
        self.log("lowest", float(self.tracker.best_metric()))
        self.outputs.clear()

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("val", self.loss(batch), batch_size=BATCH)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class TwoOptimizers(Model):
    """Manual optimization; the second optimizer accumulates over three batches."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> Any:
        first, second = self.optimizers()
        first.zero_grad()
        if index % 3 == 0:
            second.zero_grad()
        self.manual_backward(super().training_step(batch, index))
        first.step()
        if index % 3 == 2:
            second.step()

    def configure_optimizers(self) -> Any:
        return [
            torch.optim.Adam(self.net[0].parameters(), lr=1e-2),
            torch.optim.SGD(self.net[4].parameters(), lr=1e-2, momentum=0.9),
        ]


class Average(CALLBACKS.Callback):  # type: ignore[misc]
    """An average of the weights, and freezing: a callback of the program's own, without a state."""

    def __init__(self) -> None:
        self.weights: dict[str, Any] = {}
        self.count = 0

    def on_train_batch_end(self, _: Any, module: Any, *__: Any) -> None:
        for name, one in module.named_parameters():
            self.weights.setdefault(name, one.detach().clone()).data.lerp_(one.detach(), 0.1)
        self.count += 1
        if self.count == 8:
            module.net[4].bias.requires_grad_(False)


def shuffled(**options: Any) -> Any:
    return DataLoader(samples(), BATCH, shuffle=True, **options)


def make_durable(trainer: Any, suffix: str) -> None:
    if "url" in OPTIONS:
        from outlast.integrations.lightning import durable

        if OPTIONS.get("form") == "older":
            save_as_before()
        url = OPTIONS["url"] + suffix
        durable(trainer, url, every_steps=int(OPTIONS.get("every", 1000)))


def save_as_before() -> None:
    """Save what the first version did."""
    from outlast.integrations.lightning.trainer_state import TrainerState

    get = TrainerState.get
    later = {"attributes", "writers", "validation"}

    def get_less(state: TrainerState) -> dict[str, Any]:
        return {name: one for name, one in get(state).items() if name not in later}

    TrainerState.get = get_less  # type: ignore[assignment, method-assign]


def files_by_steps(folder: str) -> list[Any]:
    """Files that wait for a validation, of updates but not of each batch, and of the best only."""
    return [
        CALLBACKS.ModelCheckpoint(
            f"{folder}/{monitor}-{mode}",
            monitor=monitor,
            mode=mode,
            save_top_k=count,
            save_last="link",
            every_n_train_steps=2,
        )
        for monitor, mode, count in (
            ("val", "min", -1),
            ("loss_step", "max", -1),
            ("loss_step", "min", 1),
        )
    ]


def fit(kind: str, folder: str) -> tuple[Any, Any]:
    """Train; returns the trainer and the model."""
    settings: dict[str, Any] = {"max_epochs": 3, "num_sanity_val_steps": 0}
    callbacks: list[Any] = [Average()] if kind in ("shuffled", "again") else []
    model = TwoOptimizers() if kind == "optimizers" else Model()
    loader, validation = shuffled(), None
    match kind:
        case "validation":
            validation = shuffled()
            settings |= {"val_check_interval": 5}
            callbacks += [
                CALLBACKS.ModelCheckpoint(f"{folder}/files", monitor="val", save_top_k=2),
                CALLBACKS.EarlyStopping("val", patience=4),
            ]
        case "files":
            validation = DataLoader(Noisy(np.random.default_rng(3).random), BATCH)
            settings |= {"val_check_interval": 7, "accumulate_grad_batches": 2}
            settings |= {"num_sanity_val_steps": 2}
            callbacks += files_by_steps(folder)
        case "workers":
            validation = DataLoader(
                Noisy(random.random), BATCH, num_workers=1, persistent_workers=True
            )
            settings |= {"max_epochs": 1, "num_sanity_val_steps": 1}
        case "loaders":
            short = DataLoader(TensorDataset(*samples()[:40]), BATCH, shuffle=True)
            loader = {"long": loader, "short": short}
            settings |= {"accumulate_grad_batches": 2}
        case "stream":
            loader = DataLoader(Stream(), BATCH)
        case "swa":
            callbacks += [CALLBACKS.StochasticWeightAveraging(1e-3, swa_epoch_start=1)]
        case "finder":
            # It trains on 14 batches before the first one of the training itself.
            callbacks += [CALLBACKS.LearningRateFinder(num_training_steps=14)]
        case "ddp":
            settings |= {"strategy": "ddp", "devices": 2}
    trainer = L.Trainer(
        **{"accelerator": "cpu", "devices": 1, **settings},
        callbacks=callbacks,
        enable_checkpointing=kind in ("validation", "files"),
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        default_root_dir=folder,
    )
    make_durable(trainer, "")
    trainer.fit(model, loader, validation)
    if kind == "again":
        trainer.fit_loop.max_epochs = 5
        make_durable(trainer, "-again")
        trainer.fit(model, shuffled())
    return trainer, model


def hash_of(model: Any, *optimizers: Any) -> str:
    """A hash of everything that the training came to."""
    found = hashlib.sha256()
    for one in model.state_dict().values():
        found.update(one.numpy().tobytes())
    for optimizer in optimizers:
        for state in optimizer.state_dict()["state"].values():
            for one in state.values():
                found.update(torch.as_tensor(one).numpy().tobytes())
    found.update(torch.get_rng_state().numpy().tobytes())
    return found.hexdigest()[:16]


def fit_with_fabric(folder: str, ranks: int) -> str:
    fabric = L.Fabric(accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    fabric.launch()
    # As the ranks of one program do, each draws other numbers from here on.
    model = build_net()
    torch.manual_seed(100 + fabric.global_rank)
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=1e-2))
    loader = fabric.setup_dataloaders(shuffled())
    epochs, done = 3, 0

    def train(batch: Any) -> None:
        nonlocal done
        optimizer.zero_grad()
        fabric.backward(nn.functional.mse_loss(model(batch[0]), batch[1]))
        optimizer.step()
        done += 1
        signal_itself(done)

    if "url" not in OPTIONS:
        for _ in range(epochs):
            for batch in loader:
                train(batch)
        return hash_of(model, optimizer)
    from outlast.integrations.lightning import durable

    state = {"model": model, "optimizer": optimizer}
    with durable(fabric, OPTIONS["url"], state, every_steps=int(OPTIONS.get("every", 1000))) as run:
        for batch in run.batches(loader, epochs=epochs):
            train(batch)
    return hash_of(model, optimizer)


def main() -> None:
    kind, folder = sys.argv[1:3]
    L.seed_everything(7)
    if kind.startswith("fabric"):
        print("result", fit_with_fabric(folder, int(kind[-1])), flush=True)
        return
    trainer, model = fit(kind, folder)
    if "test" in OPTIONS:
        trainer.validate(model, shuffled(), verbose=False)
    metrics = {name: float(one) for name, one in trainer.callback_metrics.items()}
    scores = [
        {
            "last": one.last_model_path and Path(one.last_model_path).resolve().name,
            **{Path(path).name: float(score) for path, score in one.best_k_models.items()},
        }
        for one in trainer.checkpoint_callbacks
    ]
    counts = [trainer.current_epoch, trainer.global_step, model.samples]
    for average in (one for one in trainer.callbacks if isinstance(one, Average)):
        metrics["average"] = sum(float(one.double().sum()) for one in average.weights.values())
    print(
        "result",
        hash_of(model, *trainer.optimizers),
        json.dumps([metrics, counts, scores], sort_keys=True),
        flush=True,
    )


if __name__ == "__main__":
    main()
