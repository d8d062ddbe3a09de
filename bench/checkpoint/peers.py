"""The other ways to save: each as its documentation advises, with its best options, and durable."""

import importlib
import logging
import os
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from bench.checkpoint.state import Tensors
from bench.checkpoint.system import System, fsync, fsync_everything, fsync_folders


class TorchSave(System):
    name = "torch.save + fsync"

    def _save(self, step: int) -> None:
        path = self.path_of(step)
        path.mkdir()
        with (path / "state.pt").open("wb") as file:
            torch.save(self.tensors, file)
            file.flush()
            os.fsync(file.fileno())
        fsync_folders(path)

    def _restore(self) -> None:
        self._load_state_dict(torch.load(self.path_of(self.newest) / "state.pt"))

    def restore_mapped(self) -> float:
        """The same file through a mapping: less copying, still unverified."""
        started = time.perf_counter()
        self._load_state_dict(torch.load(self.path_of(self.newest) / "state.pt", mmap=True))
        return time.perf_counter() - started

    def _load_state_dict(self, loaded: Tensors) -> None:
        # What load_state_dict does with each entry, without a module around the tensors.
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(loaded[name])


class Safetensors(System):
    name = "safetensors + fsync"

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        self._torch = importlib.import_module("safetensors.torch")
        self._open = importlib.import_module("safetensors").safe_open

    def _save(self, step: int) -> None:
        path = self.path_of(step)
        path.mkdir()
        file = path / "state.safetensors"
        self._torch.save_file(self.tensors, file)
        fsync(file)
        fsync_folders(path)

    def _restore(self) -> None:
        path = self.path_of(self.newest) / "state.safetensors"
        with self._open(path, framework="pt") as file, torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(file.get_tensor(name))


class Dcp(System):
    """`torch.distributed.checkpoint.save`; it syncs its files, but not its folders."""

    name = "DCP save"

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        warnings.filterwarnings("ignore", module="torch")
        self._dcp: Any = importlib.import_module("torch.distributed.checkpoint")

    def _writer(self, step: int) -> Any:
        return self._dcp.FileSystemWriter(self.path_of(step), sync_files=True)

    def _save(self, step: int) -> None:
        self._dcp.save(self.tensors, storage_writer=self._writer(step), no_dist=True)
        fsync_folders(self.path_of(step))

    def _restore(self) -> None:
        self._dcp.load(self.tensors, checkpoint_id=self.path_of(self.newest), no_dist=True)


class DcpAsync(Dcp):
    """`async_save(state, checkpoint_id=…)`: the stager is made anew for each save."""

    name = "DCP async_save, default"
    asynchronous = True
    kind = "THREAD"

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        self._future: Any = None
        self._stager = self._new_stager()

    def _new_stager(self) -> Any:
        return None

    def _save(self, step: int) -> None:
        answer = self._dcp.async_save(
            self.tensors,
            checkpoint_id=self.path_of(step),
            async_checkpointer_type=getattr(
                self._dcp.state_dict_saver.AsyncCheckpointerType, self.kind
            ),
            async_stager=self._stager,
        )
        if hasattr(answer, "staging_completion"):
            # The loop may not change the tensors before this.
            answer.staging_completion.result()
            answer = answer.upload_completion
        self._future = answer

    def wait_durable(self) -> None:
        self._future.result()
        fsync_folders(self.path_of(self.newest))

    def close(self) -> None:
        if self._stager is not None:
            self._stager.close()


class DcpAsyncCached(DcpAsync):
    """One DefaultStager for all saves: it keeps its buffers, so they are faulted in only once.

    Without an accelerator pinned memory and non-blocking copies are refused by torch 2.13, and
    so is FileSystemWriter(cache_staged_state_dict=True), which pins; asynchronous staging only
    moves the copy to a thread for which the loop has to wait.
    """

    name = "DCP async_save, reused stager"
    shared = False

    def _new_stager(self) -> Any:
        staging: Any = importlib.import_module("torch.distributed.checkpoint.staging")
        options = staging.StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=self.shared,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
        return staging.DefaultStager(options)


class DcpAsyncProcess(DcpAsyncCached):
    """A helper process writes; shared memory spares it a copy through a pipe."""

    name = "DCP async_save, process, reused stager"
    kind = "PROCESS"
    shared = True

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        # The helper process insists on a process group.
        self._dist: Any = importlib.import_module("torch.distributed")
        self._dist.init_process_group("gloo", store=self._dist.HashStore(), rank=0, world_size=1)

    def close(self) -> None:
        super().close()
        self._dist.destroy_process_group()


class OrbaxNumpy(System):
    """Orbax's AsyncCheckpointer on NumPy arrays that share the memory of the tensors."""

    name = "Orbax async, NumPy"
    asynchronous = True

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        logging.disable(logging.WARNING)
        self._orbax: Any = importlib.import_module("orbax.checkpoint")
        self._checkpointer = self._orbax.AsyncCheckpointer(self._orbax.PyTreeCheckpointHandler())
        self._arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}

    def _save(self, step: int) -> None:
        self._checkpointer.save(self.path_of(step), args=self._orbax.args.PyTreeSave(self._arrays))

    def wait_durable(self) -> None:
        self._checkpointer.wait_until_finished()
        fsync_everything(self.path_of(self.newest))

    def _read(self) -> dict[str, Any]:
        args = self._orbax.args.PyTreeRestore(
            restore_args=self._orbax.checkpoint_utils.construct_restore_args(self._arrays)
        )
        loaded: dict[str, Any] = self._checkpointer.restore(self.path_of(self.newest), args=args)
        return loaded

    def _restore(self) -> None:
        loaded = self._read()
        for name, array in self._arrays.items():
            array[...] = loaded[name]

    def close(self) -> None:
        self._checkpointer.close()


class OrbaxJax(OrbaxNumpy):
    """The same on JAX arrays, which never change: a step of training makes new ones."""

    name = "Orbax async, JAX"

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        super().__init__(tensors, folder)
        self._jax: Any = importlib.import_module("jax")
        self._numpy: Any = importlib.import_module("jax.numpy")
        self._arrays = {name: self._numpy.array(tensor.numpy()) for name, tensor in tensors.items()}
        for name in tensors:
            tensors[name] = torch.empty(0)  # the JAX arrays are the state now

    def mutate(self, changing: Tensors) -> None:
        for name in changing:
            self._arrays[name] = self._jax.block_until_ready(self._arrays[name] + 1)

    def snapshot(self) -> Tensors:
        return {
            name: torch.from_numpy(self._numpy.asarray(array).__array__().copy())
            for name, array in self._arrays.items()
        }

    def poison(self) -> None:
        for name, array in self._arrays.items():
            self._arrays[name] = self._numpy.zeros_like(array)

    def holds(self, expected: Tensors) -> bool:
        now = self.snapshot()
        return all(torch.equal(now[name], tensor) for name, tensor in expected.items())

    def _restore(self) -> None:
        self._arrays = self._jax.block_until_ready(self._read())


PEERS: tuple[type[System], ...] = (
    TorchSave,
    Safetensors,
    Dcp,
    DcpAsync,
    DcpAsyncCached,
    DcpAsyncProcess,
    OrbaxNumpy,
    OrbaxJax,
)
