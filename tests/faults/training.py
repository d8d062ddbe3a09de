"""A small training that draws on every source of randomness, and says what it ended with."""

import hashlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import outlast

EXAMPLES = 48
BATCH = 6
EPOCHS = 3
STEPS = EPOCHS * EXAMPLES // BATCH + 12


class Numbers(Dataset[tuple[int, torch.Tensor]]):
    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.arange(8, dtype=torch.float32) * (index + 1) / EXAMPLES


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How to train. `own_generator`: whether the loader has one, or draws on torch's global one."""

    url: str
    result: Path
    own_generator: bool = True
    workers: int = 0
    pause_seconds: float = 0.004
    every_steps: int = 2
    grace_seconds: float = 600.0
    waits_at: int | None = None
    """The step at which it waits for a notice, so that it cannot be done before."""
    prepare: Callable[[], object] | None = None


class Training:
    """Model, optimizer, scheduler, average and the order in which examples came."""

    def __init__(self, plan: Plan) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        self.model = nn.Sequential(
            nn.Linear(8, 32), nn.Dropout(0.3), nn.BatchNorm1d(32), nn.Linear(32, 1)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 5, gamma=0.9)
        self.average = torch.optim.swa_utils.AveragedModel(self.model)
        generator = torch.Generator().manual_seed(3) if plan.own_generator else None
        self.loader: DataLoader[Any] = DataLoader(
            Numbers(),
            BATCH,
            shuffle=True,
            generator=generator,
            num_workers=plan.workers,
            # A life is forked from a server, and would start its workers from yet another one.
            multiprocessing_context="fork" if plan.workers else None,
        )
        self.state: dict[str, Any] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "average": self.average,
            # Large enough for a chunk of its own, which all checkpoints share.
            "frozen": torch.arange(40_000, dtype=torch.float32),
            "trace": [],
            "sum": 0.0,
        }

    def step(self, examples: torch.Tensor) -> None:
        noise = random.random() + float(np.random.rand()) + torch.rand(())
        loss = ((self.model(examples + noise) - 1) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.average.update_parameters(self.model)
        self.state["sum"] += loss.item()

    def digest(self) -> str:
        """Everything that a run may end with, to the last bit."""
        found = hashlib.sha256()
        tensors = [*self.model.state_dict().values(), *self.average.state_dict().values()]
        for state in self.optimizer.state_dict()["state"].values():
            tensors += [item for item in state.values() if torch.is_tensor(item)]
        for tensor in tensors:
            found.update(tensor.detach().numpy().tobytes())
        rest = [self.state["trace"], self.state["sum"].hex(), self.scheduler.get_last_lr()]
        found.update(repr([rest, torch.rand(3), random.random(), np.random.rand()]).encode())
        return found.hexdigest()


def train(plan: Plan) -> None:
    """Epochs of batches, then steps. The result is written only if the end is reached."""
    if plan.prepare is not None:
        plan.prepare()
    training = Training(plan)
    with outlast.Run(
        plan.url,
        training.state,
        every_steps=plan.every_steps,
        keep_last=2,
        grace_seconds=plan.grace_seconds,
    ) as run:
        print("entered at", run.step)
        for numbers, examples in run.batches(training.loader, epochs=EPOCHS):
            training.step(examples)
            training.state["trace"] += numbers.tolist()
            print("computed a step")
            if run.step == plan.waits_at:
                run.guard.wait()
            time.sleep(plan.pause_seconds)
        for _ in run.steps(STEPS):
            training.step(torch.rand(BATCH, 8))
            time.sleep(plan.pause_seconds)
    print("finished")
    aside = plan.result.with_suffix(f".{os.getpid()}")
    aside.write_text(training.digest())
    aside.rename(plan.result)
