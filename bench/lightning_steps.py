"""What Lightning's integration adds to a training batch, in the environment of the frameworks.

One fit differs from the next by more than what is measured. So many short fits, plain and durable,
take turns in one process, and what counts is the median of the differences of neighbors. Python's
garbage collector does not walk through the modules of torch, which takes as long as many batches.
"""

import gc
import importlib
import json
import logging
import os
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from bench.measure import Row, counted

ROOT = Path(__file__).parents[1]
PAIRS = 40
BATCHES = 200
EPOCHS = 3


def rows() -> list[Row]:
    python = os.environ.get("OUTLAST_BENCH_FRAMEWORKS") or str(ROOT / ".frameworks/bin/python")
    command = [python, "-m", "bench.lightning_steps"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    low, high = (f"{one * 1e6:.1f}" for one in found["quartiles"])
    return [
        Row(
            "Lightning: CPU time added to a batch",
            f"{found['added'] * 1e6:.1f} µs",
            f"plain batch {found['plain'] * 1e6:.0f} µs; half of the pairs: {low} to {high} µs",
            "≤ 20 µs",
        )
    ]


def seconds_per_batch(*, is_durable: bool) -> float:
    """The CPU time of this thread for a batch of a tiny model, after a first epoch."""
    torch = importlib.import_module("torch")
    lightning = importlib.import_module("lightning")
    from outlast.integrations.lightning import durable

    seconds: list[float] = []

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

        def on_train_epoch_start(self) -> None:
            seconds.append(-time.thread_time())

        def on_train_epoch_end(self) -> None:
            seconds[-1] += time.thread_time()

    data = torch.utils.data.TensorDataset(torch.zeros(BATCHES, 4))
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        if is_durable:
            durable(trainer, folder, every_seconds=3600.0)
        gc.collect()
        gc.freeze()
        trainer.fit(Model(), torch.utils.data.DataLoader(data, 1, shuffle=True))
    return min(seconds[1:]) / BATCHES


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    plain: list[float] = []
    added: list[float] = []
    for number in counted(PAIRS + 1):
        # By turns, because the second fit may find the processor in another state.
        order = (False, True) if number % 2 else (True, False)
        found = {one: seconds_per_batch(is_durable=one) for one in order}
        plain.append(found[False])
        added.append(found[True] - found[False])
    # The first pair imports.
    low, middle, high = statistics.quantiles(added[1:], n=4)
    measured = {"plain": statistics.median(plain[1:]), "added": middle, "quartiles": [low, high]}
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
