"""What Lightning's integration adds to a training batch, in the environment of the frameworks."""

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

from bench.measure import Row, interleaved

ROOT = Path(__file__).parents[1]
ROUNDS = 7
BATCHES = 1000
EPOCHS = 3


def rows() -> list[Row]:
    python = os.environ.get("OUTLAST_BENCH_FRAMEWORKS") or str(ROOT / ".frameworks/bin/python")
    command = [python, "-m", "bench.lightning_steps"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    more = found["durable"] - found["plain"]
    return [
        Row(
            "Lightning: CPU time added to a batch",
            f"{more * 1e6:.1f} µs",
            f"plain batch {found['plain'] * 1e6:.0f} µs",
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
        trainer.fit(Model(), torch.utils.data.DataLoader(data, 1, shuffle=True))
    return statistics.median(seconds[1:]) / BATCHES


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    cases = {
        "plain": lambda: seconds_per_batch(is_durable=False),
        "durable": lambda: seconds_per_batch(is_durable=True),
    }
    print(json.dumps(interleaved(cases, ROUNDS)))


if __name__ == "__main__":
    main()
