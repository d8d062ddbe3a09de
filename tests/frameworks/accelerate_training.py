"""A small training with accelerate, as its users write it, plain or durable.

    python accelerate_training.py RUN RESULT VARIANT...

Trains without outlast if RUN is empty. `STOP=13,TERM` sends a signal to the process in that step.
"""

import hashlib
import json
import os
import random
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outlast.integrations.accelerate import durable

accelerate: Any = import_module("accelerate")

url, result, *variant = sys.argv[1:]
EPOCHS = 1 if "late" in variant else 3
# An odd number of batches, the last one smaller.
SAMPLES = 299 if "late" in variant else 35
# Later than the batches in which it is found out which generators loading draws from.
LATE_AT = 66 * 4
stop_at, stop_by = os.environ.get("STOP", "-1,TERM").split(",")


class Samples(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        x = torch.full((4,), index / SAMPLES)
        if "random" in variant or ("late" in variant and index >= LATE_AT):
            x += 0.01 * (torch.randn(4) + random.random() + np.random.rand())
        return {"x": x, "index": index}


class Noisy(Samples):
    """Draws from a generator of its own, and counts, each time it is read."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(4)
        self.count = 0

    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        self.count += 1
        return found | {"x": found["x"] + self.generator.normal() / self.count}


class Counting(torch.nn.Module):
    """Counts its calls, and keeps an average that is not in its state_dict."""

    average: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("average", torch.zeros(8), persistent=False)

    def forward(self, inputs: Any) -> Any:
        self.calls += 1
        # In an evaluation, too, after which DistributedDataParallel sends no buffers.
        self.get_buffer("average").lerp_(inputs.detach().mean(0), 0.1)
        return inputs * (1 + 0.01 * self.calls) - self.get_buffer("average")


class Stream(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Any:
        return map(Samples().__getitem__, range(SAMPLES))


accelerate.utils.set_seed(3)
configuration = accelerate.DataLoaderConfiguration(
    split_batches="split" in variant,
    dispatch_batches=True if "dispatch" in variant else None,
    use_seedable_sampler="seedable" in variant,
    use_stateful_dataloader="stateful" in variant,
)
accelerator: Any = accelerate.Accelerator(
    cpu=True,
    gradient_accumulation_steps=2 if "accumulate" in variant else 1,
    dataloader_config=configuration,
)
model: Any = torch.nn.Sequential(
    torch.nn.Linear(4, 8),
    torch.nn.BatchNorm1d(8),
    torch.nn.Dropout(0.3),
    Counting(),
    torch.nn.Linear(8, 1),
)
optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler: Any = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
loader: Any = torch.utils.data.DataLoader(
    Stream() if "stream" in variant else Samples(),
    batch_size=4,
    shuffle=not {"stream", "late"} & set(variant),
    num_workers=1 if "workers" in variant else 0,
)
evaluation: Any = torch.utils.data.DataLoader(
    Noisy() if "noisy" in variant else Samples(), batch_size=8
)
model, optimizer, loader, evaluation = accelerator.prepare(model, optimizer, loader, evaluation)
if "scheduler" in variant:
    scheduler = accelerator.prepare(scheduler)


class History:
    """Something of the program's own, registered for checkpointing."""

    def __init__(self) -> None:
        self.indices: list[list[int]] = []
        self.scores: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


history = History()
accelerator.register_for_checkpointing(history)


def train(batch: Any) -> None:
    with accelerator.accumulate(model):
        loss = ((model(batch["x"]) - batch["index"][:, None] / SAMPLES) ** 2).mean()
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    history.indices.append(batch["index"].tolist())


@torch.no_grad()
def evaluate() -> None:
    model.eval()
    found = [accelerator.gather_for_metrics(model(batch["x"])).sum() for batch in evaluation]
    history.scores.append(float(sum(found)))
    model.train()


def is_last_batch_wanted(number: int) -> bool:
    return "break" in variant and number == 6


if not url:
    for _ in range(EPOCHS):
        for number, batch in enumerate(loader):
            train(batch)
            if is_last_batch_wanted(number):
                break
        evaluate()
else:
    with durable(accelerator, url, every_steps=4) as run:
        for _ in run.epochs(EPOCHS):
            for batch in run.batches(loader):
                train(batch)
                if run.step == int(stop_at):
                    os.kill(os.getpid(), getattr(signal, f"SIG{stop_by}"))
                    run.guard.catch_up()
                if is_last_batch_wanted(run.batch):
                    break
            evaluate()

bits = hashlib.sha256()
for part in accelerator.unwrap_model(model).state_dict().values():
    bits.update(part.numpy().tobytes())
found = {
    "bits": bits.hexdigest(),
    "history": history.state_dict(),
    "rate": optimizer.param_groups[0]["lr"],
    "counts": [accelerator.step, loader.iteration, evaluation.iteration],
    "random": [random.random(), float(np.random.rand()), float(torch.rand(()))],
}
Path(f"{result}.{accelerator.process_index}").write_text(json.dumps(found))
if accelerator.num_processes > 1:
    accelerator.end_training()
