"""What each of four ranks saves of arrays that have fewer rows than there are ranks, as JSON.

    python -m tests.faults.empty_shards

Each rank is a process, because torch remembers what it has computed for one. They send nothing.
"""

import json
import math
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from outlast.checkpoint.state.division import Division
from outlast.checkpoint.state.tree import capture

SIZE = 4
SMALL_SHAPES = [(0,), (0, 4), (3, 0), (1,), (3,), ()]


def main() -> None:
    torch.set_num_threads(1)
    # Loads what every optimizer loads at its first step, once for all ranks.
    stepped(torch.nn.Linear(1, 1))
    found = []
    for rank in range(SIZE):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, json.dumps(facts_of(rank)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            found.append(json.load(answer))
        assert os.wait()[1] == 0
    json.dump(found, sys.stdout)


def facts_of(rank: int) -> dict[str, Any]:
    dist.init_process_group("fake", rank=rank, world_size=SIZE, store=FakeStore())
    mesh = init_device_mesh("cpu", (SIZE,))
    return {
        "sharded": facts(sharded_model(mesh), rank),
        "tied": facts(tied(mesh, rank), rank),
        "replicated": facts(replicated_model(), rank),
    }


def facts(state: dict[str, Any], rank: int) -> dict[str, Any]:
    division = Division(rank, SIZE)
    division.prepare()
    divided = division.divide(capture(state), state)
    return {
        "root": divided.tree.root,
        "layout": divided.layout,
        "equal": [leaf.path for leaf in divided.equal()],
        "saved": {leaf.path: math.prod(leaf.shape) for leaf in divided.tree.leaves},
        "elements": {
            leaf.path: leaf.shard.elements for leaf in divided.tree.leaves if leaf.shard is not None
        },
    }


def sharded_model(mesh: Any) -> dict[str, Any]:
    """Layers of 1, 3 and 5 rows: the last ranks have nothing of them."""
    model = torch.nn.Sequential(*(torch.nn.Linear(3, rows) for rows in (1, 3, 5)))
    fully_shard(model, mesh=mesh)
    return {"model": model, "optimizer": stepped(model)}


def stepped(model: torch.nn.Module) -> torch.optim.Optimizer:
    """An optimizer that has created its arrays."""
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return optimizer


def tied(mesh: Any, rank: int) -> dict[str, Any]:
    """Two rows on four ranks, twice, and the first one under a second name."""
    one, other = (
        DTensor.from_local(
            torch.ones(1 if rank < 2 else 0, 3),
            mesh,
            [Shard(0)],
            run_check=False,
            shape=torch.Size((2, 3)),
            stride=(3, 1),
        )
        for _ in range(2)
    )
    return {"one": one, "other": other, "again": one.detach()}


def replicated_model() -> dict[str, Any]:
    module = torch.nn.Module()
    for number, shape in enumerate(SMALL_SHAPES):
        module.register_parameter(f"p{number}", torch.nn.Parameter(torch.ones(shape)))
    return {"model": torch.nn.parallel.DistributedDataParallel(module)}


if __name__ == "__main__":
    main()
