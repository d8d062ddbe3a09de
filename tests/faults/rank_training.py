"""A training of several ranks, for tests that kill it: data-parallel or sharded, by torch.

    python -m tests.faults.rank_training KIND FOLDER RANK SIZE [OPTIONS as JSON]

Prints `ready STEP` when the run is open, and `done HASH` at its end: the hash is of everything that
the training has computed on this rank. The ranks meet through a store in the process of rank 0,
whose port is in a file of the folder.
"""

import hashlib
import itertools
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import outlast
from outlast.checkpoint.ranks import RankGroup
from outlast.storage.local.store import LocalStore

STEPS = 12


def main() -> None:
    kind, folder, rank, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    options: dict[str, Any] = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    torch.set_num_threads(1)
    if options.get("killed_at_call", [-1, 0])[0] == rank:
        die_at_call(options["killed_at_call"][1])
    connect(folder, rank, size, options.get("life", "0"))
    print("done", train(kind, folder / "run", rank, options), flush=True)
    dist.destroy_process_group()


def connect(folder: Path, rank: int, size: int, life: str) -> None:
    path = folder / f"port-{life}"
    if rank == 0:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        path.with_suffix(".new").write_text(str(store.port))
        path.with_suffix(".new").rename(path)
    else:
        while not path.exists():
            time.sleep(0.01)
        store = TCPStore("127.0.0.1", int(path.read_text()), wait_for_workers=False)
    timeout = timedelta(minutes=10)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)


def die_at_call(number: int) -> None:
    """End the process by SIGKILL before or after one of its calls to the store or the channel."""
    calls = itertools.count()

    def killed_around(function: Any) -> Any:
        def around(*arguments: Any, **named: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            found = function(*arguments, **named)
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return around

    for kind, names in ((LocalStore, ("create", "delete")), (RankGroup, ("publish",))):
        for name in names:
            setattr(kind, name, killed_around(getattr(kind, name)))


def model_of(kind: str, size: int) -> tuple[Any, Any]:
    """The model as it trains, and the module with its weights."""
    torch.manual_seed(0)
    module: Any = torch.nn.Sequential(
        torch.nn.Linear(7, 33),
        torch.nn.BatchNorm1d(33) if kind == "ddp" else torch.nn.LayerNorm(33),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(33, 5),
    )
    if kind == "ddp":
        return DistributedDataParallel(module), module
    mesh = init_device_mesh("cpu", (size,))
    for layer in module:
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh), module


def train(kind: str, url: Path, rank: int, options: dict[str, Any]) -> str:
    size = dist.get_world_size()
    model, module = model_of(kind, size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(100 + rank)
    state = {"model": model, "optimizer": optimizer, "losses": []}
    if "lost_seconds" in options:
        os.environ["OUTLAST_LOST_SECONDS"] = str(options["lost_seconds"])
    saves: dict[str, Any] = {"every_steps": options.get("every_steps", 2)}
    if options.get("elastic"):
        saves["elastic"] = True
    with outlast.Run(url, state, exit_code=75, **saves) as run:
        print("ready", run.step, flush=True)
        if options.get("only_resume"):
            print("weights", hash_of(full(module)), flush=True)
        for step in run.steps(run.step if options.get("only_resume") else STEPS):
            x, y = torch.randn(8, 7), torch.randn(8, 5)
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            state["losses"].append(loss.item())
            if [rank, step] == options.get("signal_at"):
                os.kill(os.getpid(), signal.Signals[options["signal"]])
            if options.get("pause_seconds"):
                time.sleep(options["pause_seconds"])
        if options.get("only_resume"):
            # The run is left as it was.
            os._exit(0)
    found = [hash_of(full(module, skip_buffers=rank > 0)), state["losses"], torch.rand(3).tolist()]
    return hash_of(found)


def full(module: Any, *, skip_buffers: bool = False) -> list[Any]:
    buffers = {name for name, _ in module.named_buffers()} if skip_buffers else set()
    return [
        [name, (one.full_tensor() if hasattr(one, "full_tensor") else one).tolist()]
        for name, one in module.state_dict().items()
        if name not in buffers
    ]


def hash_of(thing: object) -> str:
    return hashlib.sha256(json.dumps(thing).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main()
