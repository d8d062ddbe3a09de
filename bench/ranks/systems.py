"""The states that several ranks save, and the ways to save them."""

import abc
import ctypes
import importlib
import mmap
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

import outlast
from bench.checkpoint.state import size_of, transformer_with_adam
from bench.checkpoint.system import fsync_folders

NEVER = 10**9
MIB = 2**20
# A parameter with the two moments of Adam.
COPIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class RankState:
    """What one rank has. `live` is what Outlast is given, `plain` the same as dicts of tensors."""

    live: dict[str, Any]
    plain: Mapping[str, Any]
    changing: list[torch.Tensor]
    size_bytes: int
    """The bytes of the entire state, of which no array is counted twice."""

    def mutate(self) -> None:
        with torch.no_grad():
            torch._foreach_add_(self.changing, 1.0)


def sharded(mib: int) -> RankState:
    """As many MiB on each rank, in tensors that are cut along their first axis, as by FSDP2."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    local = transformer_with_adam(mib)
    tensors = {
        name: DTensor.from_local(one, mesh, [Shard(0)], run_check=False)
        for name, one in local.items()
    }
    return RankState(
        live={"model": tensors},
        plain={"model": tensors},
        changing=list(local.values()),
        size_bytes=size_of(local) * dist.get_world_size(),
    )


def data_parallel(mib: int) -> RankState:
    """A module under DistributedDataParallel and its Adam: as many MiB, equal on all ranks."""
    torch.manual_seed(0)
    shapes = [one.shape for one in transformer_with_adam(mib).values()]
    module = torch.nn.ParameterList(torch.rand(shape) for shape in shapes[: len(shapes) // COPIES])
    model = DistributedDataParallel(_Callable(module))
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    # Creates the moments.
    optimizer.step()
    optimizer.zero_grad()
    moments = [one for state in optimizer.state.values() for one in state.values()]
    for moment in moments:
        # Equal bytes would be stored only once.
        moment.uniform_()
    changing = [*(one.detach() for one in model.parameters()), *moments]
    return RankState(
        live={"model": model, "optimizer": optimizer},
        plain={"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        changing=changing,
        size_bytes=sum(one.nbytes for one in changing),
    )


class _Callable(torch.nn.Module):
    """A module that only holds others."""

    def __init__(self, held: torch.nn.Module) -> None:
        super().__init__()
        self.held = held


class RankSystem(abc.ABC):
    """Saves the state of all ranks again and again. Every rank makes the same calls."""

    name: ClassVar[str]

    def __init__(self, state: RankState, folder: Path) -> None:
        self.state = state
        self.folder = folder

    @abc.abstractmethod
    def save(self, step: int) -> None:
        """Return when the tensors may change again."""

    @abc.abstractmethod
    def wait_durable(self) -> None:
        """Return when the checkpoint of all ranks would survive a loss of power."""

    def staged_bytes(self) -> int | None:
        """How many bytes this rank copies at a save, if it is known."""
        return None

    def prune(self) -> None:
        """Leave only the newest checkpoint. All ranks are between two saves."""
        return

    def close(self) -> None:
        return


class Outlast(RankSystem):
    name = "Outlast"

    def __init__(self, state: RankState, folder: Path) -> None:
        super().__init__(state, folder)
        self._checkpointer = outlast.Checkpointer(
            folder, state.live, every_steps=NEVER, keep_last=1
        )
        self._checkpointer.resume()

    def save(self, step: int) -> None:
        self._checkpointer.save(step)

    def wait_durable(self) -> None:
        self._checkpointer.wait()

    def staged_bytes(self) -> int:
        return self._checkpointer._session.saver.size_now()  # noqa: SLF001 - nothing public shows it

    def close(self) -> None:
        self._checkpointer.close()


class Memcpy(RankSystem):
    """Not a checkpoint, but the least that any has to do: copy the rank's share of the bytes."""

    name = "memcpy"

    def __init__(self, state: RankState, folder: Path) -> None:
        super().__init__(state, folder)
        self._memmove = ctypes.memmove
        spans = list(_share(state))
        size = sum(length for _, length in spans)
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.madvise(mmap.MADV_HUGEPAGE)
        target = np.frombuffer(self._memory, np.uint8).ctypes.data
        self._copies = []
        for source, length in spans:
            self._copies.append((target, source, length))
            target += length

    def save(self, step: int) -> None:
        for target, source, length in self._copies:
            self._memmove(target, source, length)

    def wait_durable(self) -> None:
        return


def _share(state: RankState) -> Iterator[tuple[int, int]]:
    """The address and the length of the bytes that this rank has to copy, array by array."""
    size, rank = dist.get_world_size(), dist.get_rank()
    has_all = sum(one.nbytes for one in state.changing) == state.size_bytes
    first, last = 0, sum(one.nbytes for one in state.changing)
    if has_all:
        first, last = (part * state.size_bytes // size for part in (rank, rank + 1))
    start = 0
    for one in state.changing:
        begin, end = max(first, start), min(last, start + one.nbytes)
        if begin < end:
            yield one.data_ptr() + begin - start, end - begin
        start += one.nbytes


class DcpAsync(RankSystem):
    """`async_save` in a thread; a stager is made for each save."""

    name = "DCP async_save, default"

    def __init__(self, state: RankState, folder: Path) -> None:
        super().__init__(state, folder)
        warnings.filterwarnings("ignore", module="torch")
        self._dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        # Its collectives run in a thread, and must not meet those of the loop.
        self._group = dist.new_group(backend="gloo")
        self._stager = self._new_stager()
        self._future: Any = None
        self._newest = 0

    def _new_stager(self) -> Any:
        return None

    def save(self, step: int) -> None:
        self._newest = step
        answer = self._dcp.async_save(
            dict(self.state.plain),
            checkpoint_id=self._path(step),
            process_group=self._group,
            async_stager=self._stager,
        )
        if hasattr(answer, "staging_completion"):
            # The loop may not change the tensors before this.
            answer.staging_completion.result()
            answer = answer.upload_completion
        self._future = answer

    def wait_durable(self) -> None:
        self._future.result()
        fsync_folders(self._path(self._newest))

    def prune(self) -> None:
        if dist.get_rank() == 0:
            for path in self.folder.iterdir():
                if path != self._path(self._newest):
                    shutil.rmtree(path)

    def close(self) -> None:
        if self._stager is not None:
            self._stager.close()

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step}"


class DcpAsyncCached(DcpAsync):
    """One stager for all saves, which keeps its buffers."""

    name = "DCP async_save, reused stager"

    def _new_stager(self) -> Any:
        staging: Any = importlib.import_module("torch.distributed.checkpoint.staging")
        return staging.DefaultStager(
            staging.StagingOptions(
                use_pinned_memory=False,
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=False,
            )
        )


ALL: tuple[type[RankSystem], ...] = (Outlast, DcpAsync, DcpAsyncCached, Memcpy)
SYSTEMS = {system.name: system for system in ALL}
