"""A training of several ranks, for tests that kill it: data-parallel or sharded, by torch.

    python -m tests.faults.rank_training KIND FOLDER RANK SIZE [OPTIONS as JSON]

Prints `ready STEP` when the run is open, and `done HASH` at its end: the hash is of everything that
the training has computed on this rank. The ranks meet through a store in the process of rank 0,
whose port is in a file of the folder.
"""

import atexit
import contextlib
import faulthandler
import hashlib
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import outlast
from outlast.storage.local.store import LocalStore
from tests.faults.kill_points import JOIN, Kill, Killer, note_in

STEPS = 12
WIDTH = 4099
"""So large that DDP's arrays are cut among the ranks, and odd, so that shards are uneven."""
STORE = -1
"""The number of a process that only holds the store, as the agent of torchrun does."""


def main() -> None:
    kind, folder, rank, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    options: dict[str, Any] = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    life = options.get("life", "0")
    torch.set_num_threads(1)
    # Shows where a rank hangs.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    connect(folder, rank, size, life, is_held=rank == options.get("store_rank", 0))
    if rank == STORE:
        signal.pause()
    print("done", train(kind, folder, rank, options), flush=True)
    dist.destroy_process_group()


def killer_of(folder: Path, rank: int, size: int, options: dict[str, Any]) -> Killer | None:
    """What kills this rank, if anything shall.

    It waits until all others are this far. What they do before is not the concern of a run, and
    they must not fail there.
    """
    life = options.get("life", "0")
    paths = [folder / f"built-{life}-{other}" for other in range(size)]
    publish(paths[rank], os.getpid())
    kill = options.get("kill")
    if kill is None:
        return None
    if kill["rank"] == rank:
        pids = [int(awaited(path)) for path in paths]
        return Killer(Kill(**kill), pids, note_in(folder, life))
    if options.get("opens_after_kill"):
        # It may have ended already.
        with contextlib.suppress(ProcessLookupError):
            select.select([os.pidfd_open(int(awaited(paths[kill["rank"]])))], [], [])
    return None


def count_parts() -> None:
    """Print the name of each part that is read."""
    read = LocalStore.read

    def reported(self: LocalStore, name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("parts/"):
            print("part", name, flush=True)
        return read(self, name, *arguments, **named)

    LocalStore.read = reported  # type: ignore[method-assign]


def publish(path: Path, number: int) -> None:
    path.with_suffix(".new").write_text(str(number))
    path.with_suffix(".new").rename(path)


def awaited(path: Path) -> str:
    while not path.exists():
        time.sleep(0.01)
    return path.read_text()


def connect(folder: Path, rank: int, size: int, life: str, *, is_held: bool) -> None:
    """Meet the other ranks, at a store that is held by one of them or by a process of its own."""
    path = folder / f"port-{life}"
    if is_held:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        publish(path, store.port)
    else:
        store = TCPStore("127.0.0.1", int(awaited(path)), wait_for_workers=False)
    if rank == STORE:
        # Never to be released: this process holds it for the others.
        globals()["held"] = store
        return
    timeout = timedelta(minutes=10)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)


def model_of(kind: str, size: int) -> tuple[Any, Any]:
    """The model as it trains, and the module with its weights."""
    torch.manual_seed(0)
    module: Any = torch.nn.Sequential(
        torch.nn.Linear(7, WIDTH),
        torch.nn.BatchNorm1d(WIDTH) if kind == "ddp" else torch.nn.LayerNorm(WIDTH),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(WIDTH, 5),
    )
    if kind == "ddp":
        # Otherwise DDP changes its buckets after the first step of each process, and with more than
        # two ranks the order in which they add gradients changes the bits.
        return DistributedDataParallel(module, find_unused_parameters=True), module
    mesh = init_device_mesh("cpu", (size,))
    for layer in module:
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh), module


def train(kind: str, folder: Path, rank: int, options: dict[str, Any]) -> str:
    size = dist.get_world_size()
    model, module = model_of(kind, size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(100 + rank)
    state = {"model": model, "optimizer": optimizer, "losses": []}
    if "lost_seconds" in options:
        os.environ["OUTLAST_LOST_SECONDS"] = str(options["lost_seconds"])
    steps = options.get("steps", STEPS)
    saves: dict[str, Any] = {"every_steps": options.get("every_steps", 2)}
    if options.get("elastic"):
        saves["elastic"] = True
    if options.get("counts_parts"):
        count_parts()
    killer = killer_of(folder, rank, size, options)
    if killer is not None:
        killer.arm()
        killer.pass_by(JOIN)
    with outlast.Run(folder / "run", state, exit_code=75, **saves) as run:
        print("ready", run.step, flush=True)
        if options.get("only_resume"):
            print("weights", hash_of(full(module)), flush=True)
        for step in run.steps(run.step if options.get("only_resume") else steps):
            x, y = torch.randn(8, 7), torch.randn(8, 5)
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            state["losses"].append(loss.item())
            if [rank, step] == options.get("signal_at"):
                os.kill(os.getpid(), signal.Signals[options["signal"]])
            if options.get("asks_for_saves"):
                run.save()
        if options.get("only_resume"):
            # The run is left as it was.
            os._exit(0)
    found = [local(module, skip_buffers=rank > 0), state["losses"], torch.rand(3).tolist()]
    return hash_of(found)


def full(module: Any) -> list[Any]:
    """All weights, by a collective."""
    return [
        [name, (one.full_tensor() if hasattr(one, "full_tensor") else one).tolist()]
        for name, one in module.state_dict().items()
    ]


def local(module: Any, *, skip_buffers: bool) -> list[Any]:
    """The weights on this rank, which needs no other."""
    buffers = {name for name, _ in module.named_buffers()} if skip_buffers else set()
    return [
        [name, (one.to_local() if hasattr(one, "to_local") else one).tolist()]
        for name, one in module.state_dict().items()
        if name not in buffers
    ]


def hash_of(thing: object) -> str:
    return hashlib.sha256(json.dumps(thing).encode()).hexdigest()[:16]


def end(code: object) -> NoReturn:
    """End the process as Python does, with its threads and exit handlers.

    But without the release of every object, which costs a fork more than a training.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # not documented
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else bool(code))


def run_as_fork() -> NoReturn:
    try:
        main()
    except SystemExit as error:
        end(error.code)
    except BaseException:
        traceback.print_exc()
        end(1)
    end(0)


if __name__ == "__main__":
    if os.environ.get("IS_FORKED"):
        run_as_fork()
    main()
