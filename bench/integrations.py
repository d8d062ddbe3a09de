"""What integrations cost inside a framework's loop. One function for each framework.

Runs itself with the Python of the frameworks' environment: OUTLAST_BENCH_FRAMEWORKS, or else
.frameworks.
"""

import contextlib
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench import keras_steps, lightning_exit, lightning_steps
from bench.measure import Row, table
from outlast._base.huge_pages import private_memory, use_huge_pages

ROOT = Path(__file__).parents[1]
ROUNDS = 7
ACCELERATE_ROUNDS = 20
STEPS = 300
COPIED_BYTES = 1024**2


def report() -> str:
    lightning = [*lightning_steps.rows(), *lightning_exit.rows()]
    rows = [*huggingface_rows(), *lightning, *accelerate_rows(), *keras_steps.rows()]
    return table("Integrations", rows)


def huggingface_rows() -> list[Row]:
    found = _measured("huggingface")
    ratio = found["stall"] / found["own"]
    return [
        Row(
            f"Hugging Face: stall of a save, {found['mebibytes']:.0f} MiB",
            f"{found['stall'] * 1000:.0f} ms",
            f"_save_checkpoint {found['own'] * 1000:.0f} ms: {ratio:.3f} of it",
            "≤ 0.1",
        ),
        Row(
            "Hugging Face: only copying the same tensors, 2 threads",
            f"{found['copy_2'] * 1000:.0f} ms",
            f"{found['copy_2'] / found['own']:.3f} of it; 1 thread {found['copy_1'] * 1000:.0f} ms",
        ),
        Row(
            "Hugging Face: CPU time added to a step",
            f"{found['overhead'] * 1e6:.1f} µs",
            f"plain step {found['step'] * 1e6:.0f} µs",
            "≤ 20 µs",
        ),
    ]


def accelerate_rows() -> list[Row]:
    found = _measured("accelerate")
    return [
        Row(
            "accelerate: CPU time added to a step",
            f"{found['overhead'] * 1e6:.1f} µs",
            f"plain step {found['step'] * 1e6:.0f} µs",
            "≤ 20 µs",
        ),
    ]


def _measured(framework: str) -> dict[str, float]:
    python = os.environ.get("OUTLAST_BENCH_FRAMEWORKS") or str(ROOT / ".frameworks/bin/python")
    command = [python, "-m", "bench.integrations", framework]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def huggingface() -> dict[str, float]:
    """Measure Hugging Face, in its own environment."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        found = [
            # By turns, because the second training of a process is slower.
            _huggingface_step(f"{folder}/{n}", ("plain", "durable")[:: -1 if n % 2 else 1])
            for n in range(ROUNDS)
        ]
        return _huggingface_stall(f"{folder}/stall") | {
            "overhead": statistics.median(map(_added, found)),
            "step": statistics.median(sum(one["plain"].values()) for one in found),
        }


def _trainer(folder: str, model: Any, rows: Any, **changes: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    given = {"per_device_train_batch_size": 1, "save_strategy": "no", "logging_steps": 10_000}
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
    args = TrainingArguments(folder, **(given | quiet | changes))
    data = [{"input_ids": row, "labels": row} for row in rows]
    return Trainer(model, args, train_dataset=data)


def _llama(**sizes: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(num_attention_heads=2, num_key_value_heads=2, **sizes))


def _huggingface_step(folder: str, order: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """The CPU time of the parts of a small step, plain and durable, measured in this order."""
    import torch

    from outlast.integrations.huggingface import durable

    # More would wait for each other.
    torch.set_num_threads(1)
    found = {}
    for name in order:
        small = {"vocab_size": 8, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1}
        rows = torch.randint(8, (STEPS, 2))
        trainer = _trainer(f"{folder}/{name}", _llama(**small), rows, num_train_epochs=1)
        if name == "durable":
            durable(trainer, f"{folder}/run", every_seconds=3600.0)
        seconds = _timed(trainer)
        trainer.train()
        # The first steps warm everything up.
        found[name] = {
            part: statistics.median(all_[STEPS // 3 :]) for part, all_ in seconds.items()
        }
    return found


def _timed(trainer: Any) -> dict[str, list[float]]:
    """Collects the CPU time of the methods that are called in each step and are not alike.

    The rest of a step is the same code in both cases, and varies by more than what is added.
    """
    kind: Any = type(trainer)
    names = ("get_batch_samples", "_maybe_log_save_evaluate", "training_step")
    seconds: dict[str, list[float]] = {name: [] for name in names}

    def timed(name: str) -> Any:
        method = getattr(kind, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            started = time.thread_time()
            found = method(self, *args, **kwargs)
            seconds[name].append(time.thread_time() - started)
            return found

        return call

    trainer.__class__ = type(kind.__name__, (kind,), {name: timed(name) for name in names})
    return seconds


def _added(parts: dict[str, dict[str, float]]) -> float:
    ours = ("get_batch_samples", "_maybe_log_save_evaluate")
    return sum(parts["durable"][name] - parts["plain"][name] for name in ours)


def _huggingface_stall(folder: str) -> dict[str, float]:
    """How long the loop waits for a save of ours, and for one of the trainer's, by turns."""
    import torch

    from outlast.integrations.huggingface import durable
    from outlast.run.driven import DrivenRun

    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 7}
    model = _llama(vocab_size=4000, **sizes)
    rows = torch.randint(4000, (ROUNDS + 3, 4))
    changes = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1}
    # The history of logs grows from one save to the next, as it does in practice.
    changes |= {"logging_steps": 1}
    trainer = _trainer(f"{folder}/output", model, rows, num_train_epochs=1, **changes)
    durable(trainer, f"{folder}/run", every_steps=1)
    stalls: list[float] = []
    owns: list[float] = []
    copies: dict[int, list[float]] = {1: [], 2: []}
    copier = _Copier(3 * sum(one.nbytes for one in model.parameters()))
    advance, save = DrivenRun.advance, type(trainer)._save_checkpoint  # noqa: SLF001

    def timed_advance(run: DrivenRun, *args: Any, **kwargs: Any) -> None:
        # Not the wait for the save before.
        run._session.wait()  # noqa: SLF001
        started = time.perf_counter()
        advance(run, *args, **kwargs)
        stalls.append(time.perf_counter() - started)

    def timed_save(trainer: Any, *args: Any) -> None:
        trainer._outlast._run._session.wait()  # noqa: SLF001
        started = time.perf_counter()
        save(trainer, *args)
        owns.append(time.perf_counter() - started)
        for threads, seconds in copies.items():
            seconds.append(copier.seconds(trainer, threads))

    replaced: Any = DrivenRun
    replaced.advance = timed_advance
    type(trainer)._save_checkpoint = timed_save  # noqa: SLF001
    trainer.train()
    size = 3 * sum(one.numel() * 4 for one in model.parameters()) / 2**20
    # The first ones get their memory.
    return {
        "stall": statistics.median(stalls[3:]),
        "own": statistics.median(owns[3:]),
        "copy_1": statistics.median(copies[1][3:]),
        "copy_2": statistics.median(copies[2][3:]),
        "mebibytes": size,
    }


class _Copier:
    """Copies the model and the optimizer's state, as fast as the C library can: the lower limit."""

    def __init__(self, size_bytes: int) -> None:
        memory = private_memory(size_bytes)
        use_huge_pages(memory, 0, size_bytes)
        self._memory = np.frombuffer(memory, np.uint8)
        self._memory[:] = 0

    def seconds(self, trainer: Any, threads: int) -> float:
        moments = trainer.optimizer.state.values()
        tensors = [*trainer.model.parameters()]
        tensors += [one[name] for one in moments for name in ("exp_avg", "exp_avg_sq")]
        copies: list[tuple[int, int, int]] = []
        at = self._memory.ctypes.data
        for one in tensors:
            for start in range(0, one.nbytes, COPIED_BYTES):
                length = min(COPIED_BYTES, one.nbytes - start)
                copies.append((at + start, one.data_ptr() + start, length))
            at += one.nbytes
        # From both ends, without a lock.
        pending = deque(copies)

        def work(take: Any) -> None:
            with contextlib.suppress(IndexError):
                while True:
                    ctypes.memmove(*take())

        takes = (pending.popleft, pending.pop)[:threads]
        started = time.perf_counter()
        helpers = [threading.Thread(target=work, args=(take,)) for take in takes[1:]]
        for helper in helpers:
            helper.start()
        work(takes[0])
        for helper in helpers:
            helper.join()
        return time.perf_counter() - started


def accelerate() -> dict[str, float]:
    """Measure accelerate, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        found = [
            # By turns, as above.
            _accelerate_step(f"{folder}/{n}", ("plain", "durable")[:: -1 if n % 2 else 1])
            for n in range(ACCELERATE_ROUNDS)
        ]
        return {
            "overhead": statistics.median(one["durable"] - one["plain"] for one in found),
            "step": statistics.median(one["plain"] for one in found),
        }


def _accelerate_step(folder: str, order: Iterable[str]) -> dict[str, float]:
    """The CPU time of a small step, plain and durable."""
    import torch

    from outlast.integrations.accelerate import durable

    torch.set_num_threads(1)
    accelerator: Any = import_module("accelerate").Accelerator(cpu=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows: Any = [torch.ones(4)] * STEPS
    data: Any = torch.utils.data.DataLoader(rows, batch_size=1, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, data)

    def seconds_per_step(batches: Any) -> float:
        found: list[float] = []
        started = time.thread_time()
        for batch in batches:
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()
            found.append(time.thread_time() - started)
            started = time.thread_time()
        return statistics.median(found[STEPS // 3 :])

    def seconds_of(name: str) -> float:
        if name == "plain":
            return seconds_per_step(loader)
        with durable(accelerator, folder, every_seconds=3600.0) as run:
            return seconds_per_step(run.batches(loader))

    return {name: seconds_of(name) for name in order}


if __name__ == "__main__":
    measures = {"huggingface": huggingface, "accelerate": accelerate}
    print(json.dumps(measures[sys.argv[1]]()))
