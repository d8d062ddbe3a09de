"""How long the ranks of a Lightning training take to exit after a notice to one of them.

In the environment of the frameworks. Without the integration, Lightning hangs here.
"""

import contextlib
import importlib
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from bench.measure import Row

ROOT = Path(__file__).parents[1]
ROUNDS = 7
RANKS = 2
INTERRUPTED = 75
WAIT_SECONDS_MAX = 1.0
PATIENCE_SECONDS = 300.0


def rows() -> list[Row]:
    python = os.environ.get("OUTLAST_BENCH_FRAMEWORKS") or str(ROOT / ".frameworks/bin/python")
    found = sorted(_seconds_until_gone(python, rank=number % RANKS) for number in range(ROUNDS))
    return [
        Row(
            f"Lightning: from SIGTERM to one of {RANKS} DDP ranks until all have exited with 75",
            f"{found[len(found) // 2]:.2f} s, longest {found[-1]:.2f} s",
            f"{ROUNDS} notices at random moments",
            "≤ 5 s",
        )
    ]


def _seconds_until_gone(python: str, *, rank: int) -> float:
    """Start a training, and send the notice to one rank when all of them are training."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        shared = os.environ | {
            "OUTLAST_EXIT_CODE": str(INTERRUPTED),
            "WORLD_SIZE": str(RANKS),
            "LOCAL_WORLD_SIZE": str(RANKS),
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": "bench",
            "OMP_NUM_THREADS": "1",
        }
        ranks = []
        for number in range(RANKS):
            command = [python, "-m", "bench.lightning_exit", folder]
            environ = shared | {"RANK": str(number), "LOCAL_RANK": str(number)}
            ranks.append(subprocess.Popen(command, cwd=ROOT, env=environ))
            stack.callback(ranks[-1].kill)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(Path(folder, f"training-{number}").exists() for number in range(RANKS)):
            if time.monotonic() > deadline or any(one.poll() is not None for one in ranks):
                raise RuntimeError("The ranks did not start to train.")
            time.sleep(0.01)
        time.sleep(random.random() * WAIT_SECONDS_MAX)
        started = time.monotonic()
        ranks[rank].send_signal(signal.SIGTERM)
        codes = [one.wait(PATIENCE_SECONDS) for one in ranks]
        seconds = time.monotonic() - started
        if codes != [INTERRUPTED] * RANKS:
            raise RuntimeError(f"The ranks exited with {codes}.")
        return seconds


def train(folder: Path) -> None:
    """One rank of a training that would never end."""
    torch = importlib.import_module("torch")
    lightning = importlib.import_module("lightning")
    from outlast.integrations.lightning import durable

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(64, 64)

        def training_step(self, batch: Any, index: int) -> Any:
            (folder / f"training-{self.global_rank}").touch()
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-6)

    trainer = lightning.Trainer(
        max_epochs=-1,
        accelerator="cpu",
        strategy="ddp",
        devices=RANKS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    durable(trainer, folder / "run", every_seconds=3600.0)
    data = torch.utils.data.TensorDataset(torch.zeros(1024, 64))
    trainer.fit(Model(), torch.utils.data.DataLoader(data, 4, shuffle=True))


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    train(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
