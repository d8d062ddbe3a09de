"""The common loop over epochs, as a program that can be ended at each of its moments."""

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import outlast

EPOCHS = 5
BATCHES = 5


class Killed(Exception):
    """Ends a life wherever it is, as SIGKILL would."""


class Life:
    """Counts the moments of a life, and ends it at one of them."""

    def __init__(self, ends_at: int | None) -> None:
        self._left = ends_at

    def moment(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise Killed


def training(
    url: str, life: Life, *, accumulate: int = 2, stop_early: bool = True, every_steps: int = 1
) -> Any:
    """The common loop: accumulation, a scheduler, evaluation, the best so far, early stopping."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    data = TensorDataset(torch.randn(4 * BATCHES - 2, 3), torch.randn(4 * BATCHES - 2, 1))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    state: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "total": 0.0,
        "log": [],
        "best": None,
    }
    with outlast.Run(url, state, every_steps=every_steps, exit_code=75) as run:
        # A resumed process draws this again.
        random.random()
        for epoch in run.epochs(EPOCHS):
            life.moment()
            state["total"] = 0.0
            noise = random.random()
            for x, y in run.batches(loader, accumulate=accumulate):
                life.moment()
                loss = (model(x) - y).square().mean() * (1 + noise)
                loss.backward()
                if (run.batch + 1) % accumulate == 0 or run.batch + 1 == BATCHES:
                    optimizer.step()
                    optimizer.zero_grad()
                state["total"] += loss.item()
                life.moment()
            life.moment()
            score = state["total"] + random.random() / 10
            scheduler.step()
            state["log"].append((epoch, score, scheduler.get_last_lr()[0]))
            life.moment()
            best = min(entry[1] for entry in state["log"])
            state["best"] = best
            if stop_early and epoch >= 2 and score > best:
                break
            life.moment()
    return plain(state), run.step


def plain(state: dict[str, Any]) -> Any:
    weights = [one.tolist() for one in state["model"].state_dict().values()]
    moments = [one["momentum_buffer"].tolist() for one in state["optimizer"].state.values()]
    # With what the generators give next.
    drawn = (random.random(), float(torch.rand(())), float(np.random.rand()))
    return weights, moments, state["total"], state["log"], state["best"], drawn


class SignalledLife(Life):
    """Sends a signal to its own process at one of its moments."""

    def __init__(self, ends_at: int | None, number: int) -> None:
        super().__init__(ends_at)
        self._number = number

    def moment(self) -> None:
        try:
            super().moment()
        except Killed:
            self._left = None
            os.kill(os.getpid(), self._number)


def train(url: str, result: Path, ends_at: int | None, number: int, seed: int) -> None:
    """One life in a process of its own."""
    options = random.Random(seed)
    found = training(
        url,
        SignalledLife(ends_at, number),
        accumulate=options.choice([1, 2, 3]),
        stop_early=options.random() < 0.5,
        every_steps=options.choice([1, 2, 5]),
    )
    result.write_text(repr(found))
