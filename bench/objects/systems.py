"""Ways to keep a state in an object store. Each saves, waits until it is durable, and restores."""

import abc
import asyncio
import importlib
import io
import time
import warnings
from typing import Any, ClassVar

import numpy as np
import obstore
import torch
from obstore.store import S3Store

from bench.checkpoint.state import Tensors
from outlast.storage.objects.store import ACCESS
from outlast.storage.objects.uploads import PART_BYTES_MIN, PARTS_AT_ONCE

BUCKET = "bench"
MIB = 1024**2


class ObjectSystem(abc.ABC):
    """Keeps one set of tensors under a folder of the bucket."""

    name: ClassVar[str]
    is_raw: ClassVar[bool] = False  # moves bytes, and restores no tensors
    unsigned: ClassVar[bool] = False  # the default of the client

    def __init__(self, tensors: Tensors, endpoint: str) -> None:
        self.tensors = tensors
        self.endpoint = endpoint

    @abc.abstractmethod
    def save(self, step: int) -> float:
        """Return when it is durable, with the seconds for which the loop stood still."""

    @abc.abstractmethod
    def restore(self) -> float:
        """The seconds to bring the newest checkpoint back into the tensors."""

    def close(self) -> None:
        return

    def client(self) -> Any:
        return S3Store(
            BUCKET,
            config={
                "endpoint": self.endpoint,
                "access_key_id": "x",
                "secret_access_key": "y",
                "region": "us-east-1",
                "unsigned_payload": self.unsigned,
            },
            client_options={"allow_http": True},
        )


async def read_ranges(store: Any, name: str, memory: np.ndarray[Any, Any]) -> None:
    """Read an object into the memory, in the fastest way that was found for this client."""
    gate = asyncio.Semaphore(ACCESS.reads_at_once)

    async def one(start: int) -> None:
        end = min(start + ACCESS.read_bytes, len(memory))
        async with gate:
            found = await obstore.get_range_async(store, name, start=start, end=end)
            source = np.frombuffer(memoryview(found), np.uint8)
            await asyncio.to_thread(np.copyto, memory[start:end], source)

    await asyncio.gather(*map(one, range(0, len(memory), ACCESS.read_bytes)))


class Ours(ObjectSystem):
    """Through its public interface; what it verifies and records is part of the time."""

    name = "Outlast"

    def __init__(self, tensors: Tensors, endpoint: str) -> None:
        super().__init__(tensors, endpoint)
        self._checkpointer = self._open()
        self._checkpointer.resume()

    def _open(self) -> Any:
        outlast: Any = importlib.import_module("outlast")
        state: dict[str, dict[str, Any]] = {"model": {}, "optimizer": {}}
        for name, tensor in self.tensors.items():
            state["model" if name.startswith("model.") else "optimizer"][name] = tensor
        return outlast.Checkpointer(f"s3://{BUCKET}/run", state, every_steps=10**9, keep_last=1)

    def save(self, step: int) -> float:
        started = time.perf_counter()
        self._checkpointer.save(step)
        stall = time.perf_counter() - started
        self._checkpointer.wait()
        return stall

    def restore(self) -> float:
        self._checkpointer.close()
        self._checkpointer = self._open()
        started = time.perf_counter()
        if not self._checkpointer.resume():
            raise AssertionError("found no checkpoint")
        return time.perf_counter() - started

    def close(self) -> None:
        self._checkpointer.close()


class RawObstore(ObjectSystem):
    """One object of that size with the same client, part size and parallelism; nothing else."""

    name = "raw obstore"
    is_raw = True

    def __init__(self, tensors: Tensors, endpoint: str) -> None:
        super().__init__(tensors, endpoint)
        self._store = self.client()
        self._memory = np.concatenate([one.view(-1).numpy() for one in tensors.values()])
        self._bytes = self._memory.view(np.uint8)

    def save(self, step: int) -> float:
        started = time.perf_counter()
        view = self._bytes.data
        obstore.put(
            self._store,
            "raw",
            (view[at : at + PART_BYTES_MIN] for at in range(0, len(view), PART_BYTES_MIN)),
            use_multipart=True,
            chunk_size=PART_BYTES_MIN,
            max_concurrency=PARTS_AT_ONCE,
        )
        return time.perf_counter() - started

    def restore(self) -> float:
        """Like after an eviction, no connection is open yet."""
        self._store = self.client()
        started = time.perf_counter()
        asyncio.run(read_ranges(self._store, "raw", self._bytes))
        return time.perf_counter() - started


class RawUnsigned(RawObstore):
    """The same without the hash of the content, which Outlast leaves out, too."""

    name = "raw obstore, unsigned content"
    unsigned = True


class TorchSave(ObjectSystem):
    """torch.save into memory and a multipart upload; the reverse to restore. Not verified."""

    name = "torch.save + upload"

    def __init__(self, tensors: Tensors, endpoint: str) -> None:
        super().__init__(tensors, endpoint)
        self._store = self.client()

    def save(self, step: int) -> float:
        started = time.perf_counter()
        file = io.BytesIO()
        torch.save(self.tensors, file)
        obstore.put(
            self._store,
            "state.pt",
            file.getbuffer(),
            use_multipart=True,
            chunk_size=PART_BYTES_MIN,
            max_concurrency=PARTS_AT_ONCE,
        )
        return time.perf_counter() - started

    def restore(self) -> float:
        started = time.perf_counter()
        size = obstore.head(self._store, "state.pt")["size"]
        memory = np.empty(size, np.uint8)
        asyncio.run(read_ranges(self._store, "state.pt", memory))
        loaded = torch.load(io.BytesIO(memory.data))
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(loaded[name])
        return time.perf_counter() - started


class DcpFsspec(ObjectSystem):
    """torch.distributed.checkpoint through its fsspec storage and s3fs. Not verified."""

    name = "DCP save, fsspec"

    def __init__(self, tensors: Tensors, endpoint: str) -> None:
        super().__init__(tensors, endpoint)
        warnings.filterwarnings("ignore", module="torch")
        importlib.import_module("s3fs")
        self._dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        self._storage: Any = importlib.import_module(
            "torch.distributed.checkpoint._fsspec_filesystem"
        )
        self._options = {
            "key": "x",
            "secret": "y",
            "client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"},
            "default_block_size": PART_BYTES_MIN,
        }
        self._path = f"s3://{BUCKET}/dcp"

    def save(self, step: int) -> float:
        started = time.perf_counter()
        writer = self._storage.FsspecWriter(self._path, thread_count=2, **self._options)
        self._dcp.save(self.tensors, storage_writer=writer, no_dist=True)
        return time.perf_counter() - started

    def restore(self) -> float:
        started = time.perf_counter()
        reader = self._storage.FsspecReader(self._path, **self._options)
        self._dcp.load(self.tensors, storage_reader=reader, no_dist=True)
        return time.perf_counter() - started


SYSTEMS: dict[str, type[ObjectSystem]] = {
    system.name: system for system in (RawObstore, RawUnsigned, TorchSave, DcpFsspec, Ours)
}
