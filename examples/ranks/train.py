"""Train a small transformer to add numbers, on several ranks that may be evicted at any moment.

    outlast exec -- torchrun --nproc-per-node 2 examples/ranks/train.py FOLDER [--sharded]

Each rank has a complete copy of the model (DistributedDataParallel) or, with `--sharded`, a part of
each of its weights (FSDP2). A notice to any rank stops all of them at one step, where the next
attempt resumes. Interrupted or not, the result is bit-identical.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import outlast

ALPHABET = "0123456789+=; "
LENGTH = 48
WIDTH = 96
LAYERS = 2
BATCH = 4


def main(folder: Path, steps: int, sharded: bool) -> None:
    device = connect()
    torch.manual_seed(7)
    model = parallel(Transformer().to(device), device, sharded)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # From here on, each rank has its own random numbers, so that it trains on its own sums.
    torch.manual_seed(100 + dist.get_rank())
    with outlast.Run(folder / "run", {"model": model, "optimizer": optimizer}) as run:
        print(f"rank {dist.get_rank()} starts at step {run.step}\n", end="", flush=True)
        for step in run.steps(steps):
            loss = train_one_step(model, optimizer, sums().to(device))
            if step % 20 == 0 and dist.get_rank() == 0:
                print(f"step {step} loss {loss:.3f}\n", end="", flush=True)
    weights = complete_weights(model)
    if dist.get_rank() == 0:
        np.savez(folder / "model.npz", **weights)
        print("finished", flush=True)
    dist.destroy_process_group()


def connect() -> torch.device:
    """Join the other ranks, which torchrun has started. One GPU per rank, if there are any."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
        return device
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return torch.device("cpu")


def parallel(model: "Transformer", device: torch.device, sharded: bool) -> nn.Module:
    if not sharded:
        # Otherwise DDP adds gradients in another order in the first step after each start, and on
        # three or more ranks a resumed run would not end with exactly the same bits.
        return DistributedDataParallel(model, find_unused_parameters=True)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


class Transformer(nn.Module):
    """Predicts the next character; about 230,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, nhead=4, dim_feedforward=4 * WIDTH, batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, text: Tensor) -> Tensor:
        """The mean loss of all characters but the first."""
        places = torch.arange(LENGTH, device=text.device)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=text.device)
        found = self.characters(text[:, :-1]) + self.places(places)
        for block in self.blocks:
            found = block(found, src_mask=mask, is_causal=True)
        logits = self.head(self.norm(found))
        return nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


def sums() -> Tensor:
    """A batch of lines such as `17+25=42;3+8=11;`, as the numbers of their characters."""
    numbers = torch.randint(100, (BATCH, LENGTH // 4, 2)).tolist()
    lines = ["".join(f"{a}+{b}={a + b};" for a, b in row)[: LENGTH + 1] for row in numbers]
    return torch.tensor([[ALPHABET.index(one) for one in line] for line in lines])


def train_one_step(model: nn.Module, optimizer: torch.optim.Optimizer, text: Tensor) -> float:
    # Any, because torch's annotations lack some methods of a tensor.
    loss: Any = model(text)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


def complete_weights(model: nn.Module) -> dict[str, Any]:
    """All weights, on all ranks: sharded ones are gathered."""
    gathered = {
        name: weight.full_tensor() if hasattr(weight, "full_tensor") else weight
        for name, weight in model.state_dict().items()
    }
    return {name: weight.cpu().numpy() for name, weight in gathered.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a small transformer on several ranks.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sharded", action="store_true", help="FSDP2 instead of DDP")
    options = parser.parse_args()
    main(options.folder, options.steps, options.sharded)
