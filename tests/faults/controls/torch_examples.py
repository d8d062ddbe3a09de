"""A PyTorch training in the style of the official examples: plain `torch.save`, nothing of ours.

Model, optimizer, scheduler, a data loader with a sampler, a checkpoint at the end of each epoch and
one when the process is told to stop. The epochs are short, so that there is a save soon after any
moment, not only the last one of all.
"""

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.dropout = nn.Dropout(0.25)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.fc1(x))
        return functional.log_softmax(self.fc2(self.dropout(x)), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--save-model", default="model.pt")
    args = parser.parse_args()

    torch.set_num_threads(1)
    stop = False

    def on_sigterm(*_: object) -> None:
        nonlocal stop
        stop = True

    signal.signal(signal.SIGTERM, on_sigterm)
    torch.manual_seed(1)
    inputs = torch.randn(128, 16)
    data = TensorDataset(inputs, inputs[:, :4].argmax(dim=1))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.95)
    epoch = batch = 0
    if args.checkpoint.is_file():
        saved: dict[str, Any] = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["rng"])
        epoch, batch = saved["epoch"], saved["batch"]

    def save() -> None:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
            "epoch": epoch,
            "batch": batch,
        }
        aside = args.checkpoint.with_suffix(".tmp")
        torch.save(state, aside)
        aside.replace(args.checkpoint)

    model.train()
    while epoch < args.epochs:
        # Seeded by the epoch, so that the order can be had again in the middle of it.
        order = torch.Generator().manual_seed(epoch)
        loader = DataLoader(data, batch_size=16, shuffle=True, generator=order)
        for number, (x, target) in enumerate(loader):
            if number < batch:
                continue
            optimizer.zero_grad()
            loss = functional.nll_loss(model(x), target)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no types there
            optimizer.step()
            time.sleep(args.pause)
            batch = number + 1
            if number % 2 == 0:
                print(f"Train Epoch: {epoch} [{number * 16}/128]\tLoss: {loss.item():.6f}")
            if stop:
                save()
                sys.exit(143)
        scheduler.step()
        epoch, batch = epoch + 1, 0
        save()
    torch.save(model.state_dict(), args.save_model)


if __name__ == "__main__":
    main()
