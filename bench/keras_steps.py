"""What Keras' integration adds to a training batch, in the environment of the frameworks."""

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
BATCHES = 500
EPOCHS = 3
BACKENDS = ("torch", "jax")


def rows() -> list[Row]:
    return [_row(backend) for backend in BACKENDS]


def _row(backend: str) -> Row:
    python = os.environ.get("OUTLAST_BENCH_FRAMEWORKS") or str(ROOT / ".frameworks/bin/python")
    command = [python, "-m", "bench.keras_steps"]
    environ = os.environ | {"KERAS_BACKEND": backend}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    more = found["durable"] - found["plain"]
    return Row(
        f"Keras with {backend}: CPU time added to a batch",
        f"{more * 1e6:.1f} µs",
        f"plain batch {found['plain'] * 1e6:.0f} µs",
        "≤ 20 µs",
    )


def seconds_per_batch(*, is_durable: bool) -> float:
    """The CPU time of this thread for a batch of a tiny model, after a first epoch."""
    keras = importlib.import_module("keras")
    numpy = importlib.import_module("numpy")
    from outlast.integrations.keras import durable

    if keras.config.backend() == "torch":
        # More would wait for each other.
        importlib.import_module("torch").set_num_threads(1)
    seconds: list[float] = []

    class Clock(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            seconds.append(-time.thread_time())

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seconds[-1] += time.thread_time()

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x = numpy.zeros((BATCHES, 4), "float32")
    with tempfile.TemporaryDirectory() as folder:
        if is_durable:
            durable(model, folder, every_seconds=3600.0)
        model.fit(x, x[:, :1], batch_size=1, epochs=EPOCHS, verbose=0, callbacks=[Clock()])
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
